/*
 * The kernel: allocates and frees, in its one task, in timer interrupts and in NMIs, and then checks everything.
 *
 * Each block that someone holds has a word in its first page that says whose it is. A block that has another word when
 * its holder looks was handed out twice.
 */
#include "kernel.h"

#define HELD 512
#define FEW 16
#define ROUNDS 200000

struct holder {
    const char *name;
    uint64_t frames[HELD], tag;
    unsigned orders[HELD], count, limit;
    uint64_t operations, failed;
};

static struct holder task = {.name = "task", .limit = HELD, .tag = 1};
static struct holder interrupts = {.name = "interrupts", .limit = FEW, .tag = 2};
static struct holder nmis = {.name = "nmis", .limit = FEW, .tag = 3};
static uint64_t pages_checked;
static bool is_planted;

static uint64_t random_number(void)
{
    static uint64_t state = 88172645463325252u;
    state ^= state << 13;
    state ^= state >> 7;
    return state ^= state << 17;
}

static void hold(struct holder *holder, int64_t frame, unsigned order)
{
    if (frame < 0) {
        if (frame != FW_E_LOCKED && frame != FW_E_WOULD_WAIT && frame != FW_E_NO_MEMORY) die("an allocation", (int)frame);
        holder->failed++;
        return;
    }
    *(volatile uint64_t *)address_of((uint64_t)frame) = holder->tag << 56 | (uint64_t)frame;
    holder->frames[holder->count] = (uint64_t)frame;
    holder->orders[holder->count++] = order;
    holder->operations++;
}

/* Takes a block away from a holder, whose tag it must have. */
static uint64_t release(struct holder *holder, unsigned at, unsigned *order)
{
    uint64_t frame = holder->frames[at];
    *order = holder->orders[at];
    if (*(volatile uint64_t *)address_of(frame) != (holder->tag << 56 | frame)) die("a page has another's tag", 0);
    *(volatile uint64_t *)address_of(frame) = 0;
    pages_checked++;
    holder->count--;
    holder->frames[at] = holder->frames[holder->count];
    holder->orders[at] = holder->orders[holder->count];
    holder->operations++;
    return frame;
}

static void must(const char *what, int error)
{
    if (error) die(what, error);
}

static void task_step(void)
{
    unsigned order = 0;
    uint64_t number = random_number();
    if (task.count == 0 || (task.count < task.limit && number % 2 == 0)) {
        order = number % 16 == 0 ? (unsigned)(number >> 8) % 10 : 0;
        hold(&task, fw_kernel_alloc(number % 3 == 0 ? FW_MOVABLE : FW_KERNEL, order), order);
    } else {
        uint64_t frame = release(&task, (unsigned)(number >> 8) % task.count, &order);
        must("a free", fw_kernel_free(frame, order));
    }
    /* An NMI, as a watchdog would send it; its handler allocates too. */
    if (number % 64 == 0) __asm__ volatile("int $2");
}

/* On the interrupt stack, with interrupts off, anywhere in the task but inside the allocator. */
void timer_interrupt(void)
{
    unsigned order;
    if (interrupts.count == interrupts.limit)
        while (interrupts.count != 0) {
            uint64_t frame = release(&interrupts, 0, &order);
            must("a free in an interrupt", fw_kernel_free(frame, order));
        }
    hold(&interrupts, fw_kernel_alloc(FW_ATOMIC, 0), 0);
}

/* Anywhere at all: only the calls for any context. */
void non_maskable_interrupt(void)
{
    unsigned order;
    if (nmis.count == nmis.limit)
        while (nmis.count != 0) {
            uint64_t frame = release(&nmis, 0, &order);
            must("a free in an NMI", fw_kernel_free_nolock(frame, order));
        }
    hold(&nmis, fw_kernel_alloc_nolock(FW_ATOMIC, 0), 0);
}

static void report(void)
{
    static char text[1 << 14];
    int length = fw_kernel_text(FW_TEXT_BUDDYINFO, text, sizeof text);
    if (length < 0) die("fw_kernel_text", length);
    print(text);
    int error = fw_kernel_validate(text, sizeof text);
    if (error) {
        print("validate: ");
        print(text);
        print("\n");
        die("fw_kernel_validate", error);
    }
    fw_kernel_stats stats = {.size = sizeof stats};
    must("fw_kernel_get_stats", fw_kernel_get_stats(&stats));
    uint64_t held = 0;
    const struct holder *holders[] = {&task, &interrupts, &nmis};
    for (unsigned i = 0; i < 3; i++)
        for (unsigned at = 0; at < holders[i]->count; at++) held += (uint64_t)1 << holders[i]->orders[at];
    if (stats.allocated != held) die("other frames are allocated than are held", 0);
    print("validate: every invariant holds: ");
    print_number(stats.managed, 10);
    print(" frames, ");
    print_number(stats.allocated, 10);
    print(" allocated\ncounts:");
    for (unsigned i = 0; i < 3; i++) {
        print(" ");
        print(holders[i]->name);
        print("=");
        print_number(holders[i]->operations, 10);
    }
    print(" ticks=");
    print_number(ticks, 10);
    print(" pages-checked=");
    print_number(pages_checked, 10);
    print(" bad-frees=");
    print_number(stats.bad_frees, 10);
    print("\n");
}

/* Whether the command line has the word. */
static bool has_word(const char *line, const char *word)
{
    size_t length = 0;
    while (word[length]) length++;
    for (; *line; line++) {
        size_t same = 0;
        while (same < length && line[same] == word[same]) same++;
        if (same == length) return true;
    }
    return false;
}

void kernel_main(const struct start_info *loaded)
{
    if (loaded->magic != 0x336ec578 || loaded->version < 1) end(REFUSED);
    is_planted = has_word((const char *)loaded->command_line, "plant");
    boot_pages(loaded);
    start_timer(1000);
    for (unsigned round = 0; round < ROUNDS || ticks < 50; round++) {
        task_step();
        if (is_planted && round == 1000 && task.count != 0) {
            /* The mistake to be found: a block is freed while it is held. */
            must("a free", fw_kernel_free(task.frames[0], task.orders[0]));
        }
    }
    __asm__ volatile("cli");
    report();
    end(RIGHT);
}
