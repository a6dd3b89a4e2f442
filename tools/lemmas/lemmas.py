#!/usr/bin/env python3
"""Proves the arithmetic of packed words, buddies and ranges for every value, by an SMT solver (Z3).

A property test tries some values of a word; a lemma here holds for all of them. Each lemma is a formula over bit vectors
of the width that the code uses. It names the lines of the core that it is about, and the constants are read from the
sources. If such a line is gone, the run fails: the lemma would be about code that does not exist.

Some lemmas are false on purpose: a mistake that was made elsewhere, or a line with a part missing. The solver must refute
them, with a counterexample. A run in which nothing can be refuted proves nothing.

    pip install z3-solver        # or: apt-get install python3-z3
    tools/lemmas/lemmas.py       # seconds; status 1 if a lemma is wrong
"""

import re
import sys
import time
from pathlib import Path

try:
    from z3 import (And, BitVec, BitVecVal, BoolVal, Concat, Extract, If, Implies, LShR, Not, Solver, UGE, ULE, ULT,
                    ZeroExt, sat, unsat)
except ImportError:
    print("SKIPPED: lemmas, which need Z3 for Python (pip install z3-solver, or apt-get install python3-z3)")
    sys.exit(0)

CORE = Path(__file__).resolve().parents[2] / "crates/framewright/src"


class Source:
    """A file of the core."""

    def __init__(self, path):
        self.path = path
        self.text = (CORE / path).read_text()
        self.squeezed = re.sub(r"\s+", " ", self.text)

    def constant(self, name):
        """The value of a constant: a number, or 1 << a number."""
        found = re.search(rf"const {name}: \w+ = (?:(\d+) << (\d+)|(0x[0-9a-f_]+|\d+))(?:;| \|)", self.text)
        if not found:
            raise SystemExit(f"lemmas: {self.path} has no constant {name} that is a number")
        base, shift, plain = found.groups()
        return int(plain.replace("_", ""), 0) if plain else int(base) << int(shift)

    def has(self, *lines):
        """Insists that the file has these lines, whatever their spaces."""
        for line in lines:
            if re.sub(r"\s+", " ", line) not in self.squeezed:
                raise SystemExit(f"lemmas: {self.path} no longer has `{line}`: its lemma must follow")


STATE, HEAD, PAGEBLOCK = Source("frame/state.rs"), Source("frame/head.rs"), Source("frame/pageblock.rs")
UNITS, QUEUED, OWNED = Source("types/units.rs"), Source("sync/queued_lock.rs"), Source("frame/owned_pageblock.rs")
RANGES = Source("free_path/concurrent_free.rs")
LIMIT_ORDER = int(re.search(r"LIMIT: Order = Order\((\d+)\)", UNITS.text).group(1))

proved, refuted, wrong = 0, 0, []


def holds(name, claim):
    """A claim that must hold for all values of its variables."""
    global proved
    solver = Solver()
    solver.add(Not(claim))
    if solver.check() == unsat:
        proved += 1
        return
    wrong.append(f"{name}: does not hold, for example for {solver.model()}")


def fails(name, claim):
    """A claim that must be refuted."""
    global refuted
    solver = Solver()
    solver.add(Not(claim))
    if solver.check() == sat:
        refuted += 1
        return
    wrong.append(f"{name}: cannot be refuted, so its lemma proves nothing")


def bits(value, width):
    return BitVecVal(value, width)


def buddies():
    """Two buddies name each other, and their parent contains nothing else."""
    UNITS.has("Frame(self.0 ^ order.frames() as u32)", "Frame(self.0 & !(order.mask() as u32))",
              "if self.0 < 64 { 1 << self.0 } else { 0 }", "self.frames().wrapping_sub(1)",
              "Frame(self.0.wrapping_add(frames as u32))")
    RANGES.has("range_locks.get(block.frame().index() >> shift)")
    frame, order, most = BitVec("frame", 32), BitVec("order", 32), BitVec("most", 32)
    size = bits(1, 32) << order
    is_block = And(ULE(order, LIMIT_ORDER), frame & (size - 1) == 0)
    buddy = frame ^ size
    low = If(ULT(frame, buddy), frame, buddy)
    parent = frame & ~((size << 1) - 1)
    holds("a block is its buddy's buddy", Implies(is_block, buddy ^ size == frame))
    holds("a buddy is another block of the order", Implies(is_block, And(buddy != frame, buddy & (size - 1) == 0)))
    holds("the lower one is the parent", Implies(is_block, And(low == parent, (low ^ size) == low + size)))
    holds("a carved half is the other half's buddy", Implies(is_block, (parent + size) ^ size == parent))
    below = And(is_block, ULT(order, most), ULE(most, LIMIT_ORDER))
    holds("buddies below the largest order share a range lock",
          Implies(below, LShR(frame, most) == LShR(buddy, most)))
    start = BitVec("start", 32)
    fails("ranges counted from a zone's start would do",
          Implies(And(below, ULE(start, frame), ULE(start, buddy)),
                  LShR(frame - start, most) == LShR(buddy - start, most)))
    fails("buddies of the largest order share a range",
          Implies(And(is_block, ULE(order, most), ULE(most, LIMIT_ORDER)), LShR(frame, most) == LShR(buddy, most)))


def ranges():
    """Bytes become frames, and a range is cut into aligned blocks, without an overflow."""
    UNITS.has("self.add(order.mask()).align_down(order)", "Pfn(self.0.saturating_add(frames))",
              "let is_whole = bytes.trailing_zeros() >= page_shift as u32;",
              "let by_size = (63 - frames.leading_zeros().min(63)) as u8;",
              "Order(by_align.min(by_size).min(self.max_order.0))")
    pfn, order = BitVec("pfn", 64), BitVec("order", 64)
    mask = (bits(1, 64) << order) - 1
    small = ULE(order, LIMIT_ORDER)
    top = bits(2**64 - 1, 64)
    saturated = If(ULT(top - mask, pfn), top, pfn + mask)
    up, down = saturated & ~mask, pfn & ~mask
    holds("the start of the next block is not below the frame",
          Implies(And(small, ULE(pfn, top - mask)), And(UGE(up, pfn), up & mask == 0, ULE(up - pfn, mask))))
    holds("the start of the block is not above the frame", Implies(small, And(ULE(down, pfn), ULE(pfn - down, mask))))
    count, shift = BitVec("bytes", 64), BitVec("shift", 64)
    page = bits(1, 64) << shift
    real = And(UGE(shift, 12), ULE(shift, 30))
    frames_down = LShR(count, shift)
    frames_up = If(count & (page - 1) == 0, frames_down, frames_down + 1)
    holds("whole frames are within the bytes", Implies(real, ULE(frames_down << shift, count)))
    holds("frames around the bytes contain them",
          Implies(And(real, ULE(count, top - page)), And(UGE(frames_up << shift, count),
                                                          ULT((frames_up << shift) - count, page))))
    start, length = BitVec("start", 64), BitVec("length", 64)
    fits = [And(start & ((bits(1, 64) << k) - 1) == 0, UGE(length, bits(1, 64) << k)) for k in range(LIMIT_ORDER + 1)]
    largest = bits(0, 64)
    for k in range(LIMIT_ORDER + 1):
        by_align, by_size = start & ((bits(1, 64) << k) - 1) == 0, UGE(length, bits(1, 64) << k)
        largest = If(And(by_align, by_size), bits(k, 64), largest)
    legal = And(length != 0, ULE(start, top - length))
    block = bits(1, 64) << largest
    holds("the next block of a range is aligned and within",
          Implies(legal, And(start & (block - 1) == 0, ULE(block, length))))
    for k in range(LIMIT_ORDER):
        holds(f"no larger block than {k} would fit", Implies(And(legal, largest == k), Not(fits[k + 1])))


def zones():
    """A zone's number gives its node and its kind back."""
    UNITS.has("ZoneIdx((node.0 as u16) << 2 | kind as u16)", "NodeId((self.0 >> 2) as u8)", "match self.0 & 3 {")
    node, kind = BitVec("node", 8), BitVec("kind", 16)
    index = (ZeroExt(8, node) << 2) | kind
    holds("a zone's number is its node and kind",
          Implies(ULE(kind, 3), And(Extract(7, 0, LShR(index, 2)) == node, index & 3 == kind)))
    fails("so it is for five kinds",
          Implies(ULE(kind, 4), And(Extract(7, 0, LShR(index, 2)) == node, index & 3 == kind)))


def states():
    """A state word holds what was put in, and one flipped bit is seen."""
    order_at, type_at, check_at = (STATE.constant(name) for name in ("ORDER", "TYPE", "CHECK"))
    skipped, owner_at, generation_at = (STATE.constant(name) for name in ("SKIPPED", "OWNER", "GENERATION"))
    reported, low = STATE.constant("REPORTED"), STATE.constant("LOW")
    STATE.has("order ^ migratetype ^ kind << 3", "State(self.0 & !State::LOW | low)",
              "let is_out = self.0 & State::LOW & !State::SKIPPED == 0;",
              "self.0 & State::LOW & !State::SKIPPED == State(0).with(1, order, migratetype).0",
              "self.0 & 0x7f == 1 | (order.0 as u64) << State::ORDER",
              "(self.generation().wrapping_add(1) as u64) << State::GENERATION & !State::REPORTED",
              "((self.0 & !State::REPORTED) >> State::GENERATION) as u32")
    word, kind, order, mobility = (BitVec(name, 64) for name in ("word", "kind", "order", "mobility"))
    legal = And(ULE(kind, 3), ULE(order, 31), ULE(mobility, 7))

    def parts(word):
        return word & 3, LShR(word, order_at) & 0x1F, LShR(word, type_at) & 7

    def check(kind, order, mobility):
        return (order ^ mobility ^ (kind << 3)) & 0x1F

    def is_sound(word):
        return LShR(word, check_at) & 0x1F == check(*parts(word))

    def made(word, kind, order, mobility):
        sum = order ^ mobility ^ (kind << 3)
        return word & ~bits(low, 64) | kind | order << order_at | mobility << type_at | sum << check_at

    new = made(word, kind, order, mobility)
    holds("a state gives back what was put in",
          Implies(legal, And(is_sound(new), *(got == put for got, put in zip(parts(new), (kind, order, mobility))))))
    holds("a change leaves owner, generation and report", Implies(legal, (new ^ word) & ~bits(low, 64) == 0))
    for bit in range(check_at + 5):
        flipped = new ^ (1 << bit)
        holds(f"a flip of bit {bit} is seen", Implies(legal, Not(is_sound(flipped))))
    fails("two flipped bits are seen too", Implies(legal, Not(is_sound(new ^ 1 << order_at ^ 1 << check_at))))
    holds("only a frame in use becomes free", Implies(And(legal, kind != 0), new & low & ~bits(skipped, 64) != 0))
    is_free_of = word & low & ~bits(skipped, 64) == made(bits(0, 64), bits(1, 64), order, mobility)
    holds("a comparison of the low half is one of all parts",
          Implies(legal, is_free_of == And(is_sound(word), parts(word)[0] == 1, parts(word)[1] == order,
                                           parts(word)[2] == mobility)))
    holds("a comparison of seven bits is one of kind and order",
          Implies(legal, (word & 0x7F == (1 | order << order_at)) == And(parts(word)[0] == 1, parts(word)[1] == order)))
    generation = Extract(31, 0, LShR(word & ~bits(reported, 64), generation_at))
    cpu = BitVec("cpu", 16)
    taken = (ZeroExt(32, generation + 1) << generation_at & ~bits(reported, 64)) | ZeroExt(48, cpu) << owner_at
    after = Extract(31, 0, LShR(taken & ~bits(reported, 64), generation_at))
    holds("a taken block is out, of the next generation, and not reported",
          And(taken & low == 0, after == (generation + 1) & 0x7FFFFFFF, taken & reported == 0,
              Extract(15, 0, LShR(taken, owner_at)) == cpu))


def heads():
    """A head byte is of one class, and comparisons with one order are right."""
    order_mask, allocated, movable = (HEAD.constant(name) for name in ("ORDER", "ALLOCATED", "MOVABLE"))
    pcp = HEAD.constant("PCP")
    HEAD.has("Head(order.0 & Head::ORDER | Head::ALLOCATED | if movable { Head::MOVABLE } else { 0 })",
             "order.0 <= Head::ORDER && self.0 & !Head::MOVABLE == Head::allocated(order, false).0",
             "self.0 & !Head::MOVABLE == order.0 | Head::ALLOCATED",
             "self.0 & !Head::ORDER == Head::ALLOCATED | Head::MOVABLE",
             "self.0 & (Head::PCP | Head::ALLOCATED) == Head::PCP")
    head, order, other = (BitVec(name, 8) for name in ("head", "order", "other"))
    of = [order & order_mask | allocated, order & order_mask | allocated | movable, order & order_mask | pcp,
          order & order_mask | allocated | pcp]

    def is_allocated_of(head, order):
        return And(ULE(order, order_mask), head & ~bits(movable, 8) == (order & order_mask | allocated))

    def is_pcp(head):
        return head & (pcp | allocated) == pcp

    def is_going(head):
        return head & (pcp | allocated) == pcp | allocated

    for number, made in enumerate(of):
        holds(f"head {number} is of one class",
              And((number < 2) == is_allocated_of(made, order & order_mask), (number == 2) == is_pcp(made),
                  (number == 3) == is_going(made), made & order_mask == order & order_mask, made != 0))
    holds("an allocated block has one order",
          Implies(And(is_allocated_of(head, order), is_allocated_of(head, other)), order == other))
    holds("for small orders the short comparison is the long one",
          Implies(ULE(order, order_mask),
                  (head & ~bits(movable, 8) == order | allocated) == is_allocated_of(head, order)))
    fails("it is for all orders", (head & ~bits(movable, 8) == order | allocated) == is_allocated_of(head, order))


def pageblocks():
    """A pageblock's word keeps its zone, its saved type and its count of holders apart."""
    present, uninit, holder = (PAGEBLOCK.constant(name) for name in ("PRESENT", "UNINIT", "HOLDER"))
    lists_at = PAGEBLOCK.constant("LISTS")
    PAGEBLOCK.has("const BY_TYPE: u32 = 3 << Pageblock::LISTS | 0xff;", "(self.0 ^ other.0) >> 8 & 0x1ff == 0",
                  "self.0.checked_add(Pageblock::HOLDER).map(Pageblock)",
                  "Pageblock(self.0 & !Pageblock::BY_TYPE | lists << Pageblock::LISTS | (saved as u32) << 4 | migratetype as u32)")
    by_type = 3 << lists_at | 0xFF
    word, other, saved, mobility, lists = (BitVec(name, 32) for name in ("word", "other", "saved", "mobility", "lists"))
    legal = And(ULE(mobility, 15), ULE(saved, 15), ULE(lists, 3))
    new = word & ~bits(by_type, 32) | lists << lists_at | saved << 4 | mobility
    holds("a type is read back, and nothing else changes",
          Implies(legal, And(new & 0xF == mobility, LShR(new, 4) & 0xF == saved, LShR(new, lists_at) & 3 == lists,
                             (new ^ word) & ~bits(by_type, 32) == 0)))
    zone, is_present = lambda word: LShR(word, 8) & 0xFF, lambda word: word & present
    holds("one comparison is of zone and presence",
          (LShR(word ^ other, 8) & 0x1FF == 0) == And(zone(word) == zone(other), is_present(word) == is_present(other)))
    fits = ULE(word, 2**32 - 1 - holder)
    held = word + holder
    holds("a holder is counted beside everything else",
          Implies(fits, And((held ^ word) & (holder - 1) == 0, LShR(held, 22) == LShR(word, 22) + 1)))
    fails("so it is without a look at the last one",
          And((held ^ word) & (holder - 1) == 0, LShR(held, 22) == LShR(word, 22) + 1))
    holds("the fields do not overlap", BoolVal(by_type & (present | uninit | 0xFF00) == 0 and by_type < holder))


def queued_locks():
    """The queued lock's one word: served and drawn wrap, and no field carries into another."""
    QUEUED.has("const READER: u64 = 1;", "const SERVED: u64 = 1 << 32;", "const DRAWN: u64 = 1 << 48;",
               "if number == u16::MAX { SERVED.wrapping_sub(DRAWN) } else { SERVED }", "(self.0 >> 48) as u16",
               "(self.0 >> 32) as u16", "self.0 as u32 != 0", "self.turns.add(DRAWN.wrapping_sub(READER)")
    readers, served, drawn = BitVec("readers", 32), BitVec("served", 16), BitVec("drawn", 16)
    word = Concat(drawn, served, readers)
    served_one, drawn_one = bits(1 << 32, 64), bits(1 << 48, 64)
    # A draw from the last number is not a carry, but its sum's upper end; the number that is passed is drawn.
    passing = If(served == 0xFFFF, served_one - drawn_one, served_one)
    after = word + passing
    holds("a turn that is passed on changes the served number alone",
          And(Extract(47, 32, after) == served + 1, Extract(63, 48, after) == drawn, Extract(31, 0, after) == readers))
    fails("it does without the special case", Extract(63, 48, word + served_one) == drawn)
    more = word + drawn_one
    holds("a draw changes the drawn number alone",
          And(Extract(63, 48, more) == drawn + 1, Extract(47, 0, more) == Extract(47, 0, word)))
    into = word + drawn_one - 1
    holds("a reader that goes into line takes itself off the count",
          Implies(readers != 0, And(Extract(63, 48, into) == drawn + 1, Extract(47, 32, into) == served,
                                    Extract(31, 0, into) == readers - 1)))
    fails("it does though it was not counted", Extract(47, 32, into) == served)


def owned_pageblocks():
    """Blocks that are chosen among free frames are aligned, and exactly those that are free as a whole."""
    OWNED.has("starts &= starts >> (1_u32 << half);", "starts &= u64::MAX.checked_div(block).unwrap_or(0);",
              "if order.0 >= WORD.0 { u64::MAX } else { (1 << (1_u64 << order.0)) - 1 }")
    free = BitVec("free", 64)
    for order in range(7):
        size = 1 << order
        block = (1 << size) - 1
        starts = free
        for half in range(order):
            starts &= LShR(starts, 1 << half)
        starts &= (2**64 - 1) // block
        for bit in range(64):
            is_start = starts & (1 << bit) != 0
            is_whole = bit % size == 0 and block << bit < 2**64
            wanted = free & ((block << bit) % 2**64) == (block << bit) % 2**64 if is_whole else BoolVal(False)
            holds(f"order {order}, frame {bit}: chosen if it is free as a whole", is_start == wanted)
    order, size = 2, 4
    starts = free & LShR(free, 1) & LShR(free, 2) & ((2**64 - 1) // 15)
    fails("one step less would do", Implies(starts & 1 != 0, free & 15 == 15))


def main():
    began = time.monotonic()
    for group in (buddies, ranges, zones, states, heads, pageblocks, queued_locks, owned_pageblocks):
        group()
    for line in wrong:
        print(f"lemmas: {line}")
    print(f"lemmas: {proved} proved, {refuted} wrong ones refuted, {len(wrong)} failed, {time.monotonic() - began:.1f} s")
    sys.exit(1 if wrong or not refuted else 0)


main()
