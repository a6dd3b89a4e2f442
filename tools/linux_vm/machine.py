"""An emulated machine with Debian's cloud kernel: fetching its packages, its initramfs, booting it.

For thpfioscale.py and others. Nothing is installed: packages are downloaded with apt and unpacked below a work folder.
"""
import os, re, shutil, signal, subprocess, sys
from pathlib import Path


def fail(text):
    sys.exit(f"{Path(sys.argv[0]).stem}: {text}")


def run(*command, **more):
    words = [str(word) for word in command]
    done = subprocess.run(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, **more)
    if done.returncode != 0:
        fail(f"this failed:\n  {' '.join(words)}\n{done.stdout.strip()[-2000:]}")
    return done.stdout


# --- Packages --------------------------------------------------------------------------------------------------------

def check_tools(needed):
    """Fails if a program is missing. `needed` maps each to the package that has it."""
    missing = [f"  {tool}: in Debian's package {package}" for tool, package in needed.items() if not shutil.which(tool)]
    if missing:
        fail("these programs are missing (it runs on Debian 12, x86-64):\n" + "\n".join(missing))


def begin(needed, work):
    """Has signals end the program as Ctrl-C does, checks its tools, and makes its folder. Returns the folder."""
    # A shell starts its background jobs with the first ignored; the second would leave the machine running.
    for stop in [signal.SIGINT, signal.SIGTERM]:
        signal.signal(stop, signal.default_int_handler)
    check_tools(needed)
    work = work.resolve()
    work.mkdir(parents=True, exist_ok=True)
    return work


def fetch(work, release, packages, headers=()):
    """Downloads the packages with all they need, and unpacks them to work/root. Returns the kernel's package.

    `headers` are packages of this kernel, fetched without what they need. They may name its {release}, {common} and
    {series}.
    """
    root, debs, stamp = work / "root", work / "debs", work / f"fetched-{release}"
    if stamp.exists():
        # An older stamp has the kernel alone: the packages were those of thpfioscale.py.
        kernel, *fetched = stamp.read_text().split()
        if set(fetched) >= {*packages, *headers} or not fetched and not headers:
            return kernel
    names = run("apt-cache", "search", "--names-only", rf"^linux-image-{re.escape(release)}\.[0-9.-]+-cloud-amd64$")
    names = [line.split()[0] for line in names.splitlines()]
    if not names:
        fail(f"apt knows no package linux-image-{release}.*-cloud-amd64: run apt-get update (as root); "
             "if that does not help, add Debian 12 to apt's sources, or ask for another --release")
    kernel = max(names, key=lambda name: [int(n) for n in re.findall(r"\d+", name)])
    print(f"downloading {', '.join(packages)} and {kernel}", flush=True)
    shutil.rmtree(root, ignore_errors=True)
    (debs / "partial").mkdir(parents=True, exist_ok=True)
    root.mkdir()
    # With an empty list of installed packages, apt names everything that these need, the C library included.
    options = ["Dir::State::status=/dev/null", "Debug::NoLocking=1"]
    options += [f"Dir::Cache={work}", f"Dir::Cache::archives={debs}"]
    run("apt-get", "-y", "--download-only", "--no-install-recommends", *(f"-o{option}" for option in options),
        "install", *packages)
    whole = kernel.removeprefix("linux-image-")
    words = {"release": whole, "common": whole.removesuffix("-cloud-amd64"), "series": release}
    run("apt-get", "download", kernel, *(name.format(**words) for name in headers), cwd=debs)
    for deb in sorted(debs.glob("*.deb")):
        run("dpkg-deb", "-x", deb, root)
    stamp.write_text("\n".join([kernel, *packages, *headers]) + "\n")
    return kernel


def version(work, package):
    """The version of a package that was fetched."""
    return run("dpkg-deb", "-f", next((work / "debs").glob(f"{package}_*.deb")), "Version").strip()


def loader(root):
    """The command that runs a program of root, which is to follow, with root's libraries and not this machine's."""
    folders = [root / "lib/x86_64-linux-gnu", root / "usr/lib/x86_64-linux-gnu", root / "usr/lib/x86_64-linux-gnu/ceph"]
    return [folders[0] / "ld-linux-x86-64.so.2", "--library-path", ":".join(map(str, folders))]


# --- The initramfs ---------------------------------------------------------------------------------------------------

def start_tree(work):
    """Makes work/initramfs anew, with busybox. Returns it."""
    tree = work / "initramfs"
    shutil.rmtree(tree, ignore_errors=True)
    for folder in ["bin", "sbin", "lib", "lib64", "modules"]:
        (tree / folder).mkdir(parents=True)
    shutil.copy(work / "root/bin/busybox", tree / "bin")
    return tree


def module_order(root, release, names):
    """The modules with those they depend on, each after what it needs."""
    files = {re.sub("-", "_", path.stem): path for path in (root / "lib/modules" / release).rglob("*.ko")}
    order = []

    def add(name):
        if name not in files:
            fail(f"the kernel {release} has no module {name}")
        needed = re.search(rb"\0depends=([^\0]*)\0", files[name].read_bytes()).group(1).decode()
        for other in filter(None, needed.split(",")):
            add(other.replace("-", "_"))
        if files[name] not in order:
            order.append(files[name])

    for name in names:
        add(name)
    return order


def add_modules(work, release, names, tree):
    """Adds the kernel's modules of these names, and modules/order, which says in what order to load them."""
    order = module_order(work / "root", release, names)
    for module in order:
        shutil.copy(module, tree / "modules")
    (tree / "modules/order").write_text("".join(module.name + "\n" for module in order))


def pack(work, tree):
    """Makes work/initrd of the tree."""
    names = "".join(f"{path.relative_to(tree)}\n" for path in sorted(tree.rglob("*")))
    with open(work / "initrd", "wb") as out:
        subprocess.run([work / "root/bin/busybox", "cpio", "-o", "-H", "newc", "-R", "0:0"], cwd=tree,
                       input=names.encode(), stdout=out, stderr=subprocess.DEVNULL, check=True)


# --- Running it ------------------------------------------------------------------------------------------------------

def command(work, release, memory, cpus, drives, parameters, nodes=1):
    """The command that boots the machine, with its console on standard output. A quarter of memory is below 4 GiB.

    Nodes share memory and CPUs equally.
    """
    root = work / "root"
    words = [*loader(root), root / "usr/bin/qemu-system-x86_64"]
    for folder in ["usr/share/qemu", "usr/share/seabios", "usr/lib/ipxe/qemu"]:
        words += ["-L", root / folder]
    words += ["-accel", "tcg,thread=multi", "-machine", f"pc,max-ram-below-4g={memory // 4}M", "-cpu", "qemu64",
              "-smp", cpus, "-m", memory, "-nodefaults", "-display", "none", "-serial", "stdio", "-no-reboot"]
    for node in range(nodes if nodes > 1 else 0):
        words += ["-object", f"memory-backend-ram,id=node{node},size={memory // nodes}M"]
        own = "".join(f",cpus={cpu}" for cpu in range(cpus) if cpu * nodes // cpus == node)
        words += ["-numa", f"node,nodeid={node},memdev=node{node}{own}"]
    for drive in drives:
        words += ["-drive", f"file={drive},format=raw,if=virtio,cache=unsafe"]
    # Without noforce, bounce buffers, which no device here needs, would take 64 MiB of DMA32. The timer's check fails
    # where the emulator waits for a processor.
    usual = "console=ttyS0 quiet nokaslr mitigations=off swiotlb=noforce no_timer_check panic=-1"
    words += ["-kernel", root / f"boot/vmlinuz-{release}", "-initrd", work / "initrd",
              "-append", f"{usual} {parameters}"]
    return [str(word) for word in words]


def boot(work, words, log, limit, what):
    """Boots the machine once, for at most `limit` seconds. Fails if it did not say that it ended."""
    environment = {**os.environ, "QEMU_MODULE_DIR": str(work / "root/usr/lib/x86_64-linux-gnu/qemu")}
    with open(log, "wb") as out:
        machine = subprocess.Popen(words, env=environment, stdin=subprocess.DEVNULL, stdout=out, stderr=out)
        try:
            machine.wait(limit)
        except subprocess.TimeoutExpired:
            pass
        finally:
            machine.kill()
            machine.wait()
    text = log.read_text(errors="replace")
    if machine.returncode != 0 or "guest: ended" not in text:
        fail(f"{what} failed or took over {limit} s. The machine's console ends:\n{text[-2000:]}")
