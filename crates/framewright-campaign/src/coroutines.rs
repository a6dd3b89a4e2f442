//! The coroutines of an engine's threads, and the loop that runs them.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;

use corosensei::stack::DefaultStack;
use corosensei::{Coroutine, CoroutineResult};

use crate::engine::Engine;
use crate::schedule::Schedule;
use crate::thread::Blocked;
use crate::wrong::{Symptom, Wrong};

/// Bytes of a thread's stack; the host backs only the pages that are used.
const STACK: usize = 256 << 10;

thread_local! {
    /// Stacks of earlier seeds: mapping one costs as much as hundreds of calls.
    static STACKS: RefCell<Vec<DefaultStack>> = const { RefCell::new(Vec::new()) };
}

type Task = Coroutine<(), (), (), DefaultStack>;

/// What a thread does for an operation.
pub(crate) type Body = Rc<dyn Fn(usize, u64)>;

/// The coroutines.
pub(crate) struct Crew {
    engine: Rc<Engine>,
    body: Body,
    tasks: Vec<Option<Task>>,
}

impl Crew {
    pub(crate) fn new(engine: Rc<Engine>, body: Body) -> Crew {
        let tasks = engine.threads.iter().map(|_| None).collect();
        Crew { engine, body, tasks }
    }

    /// Lets threads carry out operations until all are done, or something is found.
    ///
    /// `order` has the operations' numbers and threads.
    pub(crate) fn run(&mut self, order: impl Iterator<Item = (u64, usize)>) {
        let engine = self.engine.clone();
        engine.turns.begin(&engine);
        let mut rest: VecDeque<(u64, usize)> = order.collect();
        let one_by_one = engine.turns.schedule == Schedule::Calls;
        if !one_by_one {
            rest.drain(..).for_each(|next| self.hand(next));
        }
        while !engine.dead.get() {
            // A thread that was stopped in a call goes on between others' calls, or when there are no more.
            if engine.turns.is_idle() || engine.below(2) == 0 {
                let next = rest.pop_front();
                next.into_iter().for_each(|next| self.hand(next));
                if let Some((_, number)) = next.filter(|&(_, number)| engine.threads[number].may_begin()) {
                    engine.turn.set(u64::MAX);
                    self.resume(number);
                    continue;
                }
            }
            match engine.turns.next(&engine) {
                Some(number) => self.resume(number),
                None if rest.is_empty() && engine.turns.is_idle() => break,
                None if !rest.is_empty() => {
                    let next = rest.pop_front();
                    next.into_iter().for_each(|next| self.hand(next));
                }
                None => engine.found(Wrong::new(Symptom::Deadlock, stuck(&engine))),
            }
        }
    }

    fn hand(&self, (operation, number): (u64, usize)) {
        self.engine.threads[number].queue.borrow_mut().push_back(operation);
        self.engine.turns.activate(number);
    }

    /// Lets a thread run until its turn ends.
    fn resume(&mut self, number: usize) {
        let engine = &self.engine;
        let body = &self.body;
        let task = self.tasks[number].get_or_insert_with(|| task(engine.clone(), body.clone(), number));
        engine.threads[number].blocked.set(Blocked::No);
        engine.current.set(number);
        engine.grant();
        task.resume(());
        engine.settle();
        engine.current.set(usize::MAX);
        engine.grant();
        if !engine.threads[number].is_busy() {
            engine.turns.retire(number);
        }
    }
}

impl Drop for Crew {
    /// Ends the coroutines; those in the middle of a call are unwound.
    fn drop(&mut self) {
        self.engine.threads.iter().for_each(|thread| thread.queue.borrow_mut().clear());
        for (number, slot) in self.tasks.iter_mut().enumerate() {
            let Some(mut task) = slot.take() else { continue };
            if self.engine.threads[number].inside.get() || self.engine.dead.get() {
                self.engine.found(Wrong::new(Symptom::Deadlock, "a thread is left in a call".to_owned()));
                drop(task);
                continue;
            }
            self.engine.threads[number].queue.borrow_mut().push_back(END);
            if let CoroutineResult::Return(()) = task.resume(()) {
                STACKS.with_borrow_mut(|stacks| stacks.push(task.into_stack()));
            }
        }
    }
}

/// Number that ends a thread.
const END: u64 = u64::MAX;

/// Makes a thread's coroutine.
fn task(engine: Rc<Engine>, body: Body, number: usize) -> Task {
    let kept = STACKS.with_borrow_mut(Vec::pop);
    let stack = kept.or_else(|| DefaultStack::new(STACK).ok()).expect("memory for a stack");
    Coroutine::with_stack(stack, move |yielder, ()| {
        let thread = &engine.threads[number];
        thread.yielder.set(yielder);
        loop {
            let next = thread.queue.borrow_mut().pop_front();
            match next {
                Some(END) => break,
                Some(operation) => {
                    thread.inside.set(true);
                    body(number, operation);
                    thread.inside.set(false);
                }
                None => yielder.suspend(()),
            }
        }
        thread.yielder.set(std::ptr::null());
    })
}

/// Says where each thread that is not done stands.
fn stuck(engine: &Engine) -> String {
    let stuck = engine.threads.iter().enumerate().filter(|(_, thread)| thread.is_busy());
    let stuck: Vec<String> = stuck
        .map(|(number, thread)| {
            let locks = thread.zone_locks.get();
            let state = if matches!(thread.blocked.get(), Blocked::No) { "may not go on" } else { "waits" };
            format!("thread {number} {state} with {locks} zone locks")
        })
        .take(4)
        .collect();
    format!("threads wait for what none of them will do: {}", stuck.join("; "))
}
