//! Code that the planted document follows.

pub struct Zone;

pub enum Rung {
    First,
    Second,
}

pub enum WrongRung {
    First,
    Second,
}

impl Zone {
    pub fn alloc(&self) {
        self.look(take(1));
        give();
    }

    fn look(&self, _: u32) {}
}

fn take(pages: u32) -> u32 {
    pages
}

fn give() {}
