//! The state of the screen as a value: keys and samples go in, requests to the source come out.
//!
//! Nothing here reads a clock, a terminal or a file, so a test can play a session.

use std::collections::VecDeque;

use super::map::BlockKind;
use super::sample::{Between, EVENTS, Sample, Zone};

/// Samples whose rates are kept for the small curves: as many as the widest screen has columns for.
const HISTORY: usize = 512;

/// Where the samples come from.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct About {
    /// The source: `kernel 6.1.0`, a socket, or a workload.
    pub source: String,
    /// On what.
    pub machine: String,
    /// CPUs that there are.
    pub cpus: usize,
    /// Mechanisms of the allocator, or what is known instead.
    pub mechanisms: String,
    /// Base of the samples' times.
    pub clock: TimeBase,
}

/// A source's clock.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TimeBase {
    /// The one on the wall.
    Wall,
    /// A simulated machine's.
    Simulated,
}

impl TimeBase {
    /// The shortest and the longest time between two samples, in seconds.
    pub const fn bounds(self) -> (f64, f64) {
        match self {
            TimeBase::Wall => (0.1, 60.0),
            TimeBase::Simulated => (1e-5, 1.0),
        }
    }

    /// The steps in between, as people say them.
    fn step(self, every: f64, up: bool) -> f64 {
        let decades = -5..=1;
        let steps = decades.flat_map(|decade| [1.0, 2.0, 5.0].map(|digit| digit * 10_f64.powi(decade)));
        let (least, most) = self.bounds();
        // A small tolerance: a step computed twice may differ in its last bit.
        let mut steps = steps.filter(|&step| (least..=most * 1.001).contains(&step));
        let next =
            if up { steps.find(|&step| step > every * 1.001) } else { steps.rfind(|&step| step < every * 0.999) };
        next.unwrap_or(every)
    }
}

/// A part of the screen.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Panel {
    /// Free pages by order.
    Free,
    /// The pageblocks.
    Map,
    /// Waits for locks.
    Locks,
    /// Per-CPU lists.
    Pcp,
    /// The panel of events.
    Events,
}

impl Panel {
    /// All of them, in the order of their numbers.
    pub const ALL: [Panel; 5] = [Panel::Free, Panel::Map, Panel::Locks, Panel::Pcp, Panel::Events];

    /// The number that one presses.
    pub fn number(self) -> usize {
        Panel::ALL.iter().position(|&panel| panel == self).map_or(0, |at| at + 1)
    }
}

/// A key's meaning.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Key {
    /// To leave.
    Quit,
    /// Out of help, then of the zoomed panel, then of the program.
    Back,
    /// To stop, or to go on.
    Pause,
    /// The next panel, or the one before.
    Turn(bool),
    /// This panel.
    Panel(usize),
    /// One panel on the whole screen, or all again.
    Zoom,
    /// Samples less often, or more often.
    Every(bool),
    /// The next zone, or the one before.
    Zone(bool),
    /// Further down in a list that does not fit, or up.
    Scroll(bool),
    /// The list of keys.
    Help,
}

/// A key's request to the thread that runs the source.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Asked {
    /// Nothing.
    Nothing,
    /// To end.
    Quit,
    /// To stop, or to go on.
    Pause(bool),
    /// Seconds of the source's clock from one sample to the next.
    Every(f64),
}

/// The state of the screen.
pub struct Screen {
    /// Where the samples come from.
    pub about: About,
    /// Seconds between samples.
    pub every: f64,
    /// Whether the source rests.
    pub is_paused: bool,
    /// Why there will be no more samples.
    pub ended: Option<String>,
    /// Panel that keys are for.
    pub focus: Panel,
    /// Whether it has the whole screen.
    pub is_zoomed: bool,
    /// Whether the keys are listed.
    pub shows_help: bool,
    /// First row that is shown of the focused panel.
    pub scroll: usize,
    /// First row that is shown of the list of keys.
    pub help_scroll: usize,
    /// How many seconds of its clock the source manages in one on the wall, where those differ.
    pub speed: Option<f64>,
    /// The zone that is shown, by its place; none for all together.
    zone: Option<usize>,
    last: Option<Sample>,
    between: Option<Between>,
    history: [VecDeque<f64>; EVENTS.len()],
}

impl Screen {
    /// Before the first sample.
    pub fn new(about: About, every: f64) -> Screen {
        Screen {
            about,
            every,
            is_paused: false,
            ended: None,
            focus: Panel::Free,
            is_zoomed: false,
            shows_help: false,
            scroll: 0,
            help_scroll: 0,
            speed: None,
            zone: None,
            last: None,
            between: None,
            history: std::array::from_fn(|_| VecDeque::new()),
        }
    }

    /// The newest sample.
    pub fn sample(&self) -> Option<&Sample> {
        self.last.as_ref()
    }

    /// The events since the sample before.
    pub fn between(&self) -> Option<&Between> {
        self.between.as_ref()
    }

    /// Rates of an event, the newest last.
    pub fn history(&self, event: usize) -> impl DoubleEndedIterator<Item = f64> {
        self.history.get(event).into_iter().flatten().copied()
    }

    /// A new sample.
    pub fn take(&mut self, sample: Sample) {
        self.between = self.last.as_ref().and_then(|last| Between::of(last, &sample));
        for (history, rate) in self.history.iter_mut().zip(self.between.iter().flat_map(|between| between.rates)) {
            history.push_back(rate.unwrap_or(0.0));
            if history.len() > HISTORY {
                history.pop_front();
            }
        }
        if self.zone.is_some_and(|zone| zone >= sample.zones.len()) {
            self.zone = None;
        }
        self.last = Some(sample);
    }

    /// The zone that is shown: all together, or one.
    pub fn shown(&self) -> Zone {
        let zones = self.last.as_ref().map_or(&[][..], |sample| &sample.zones);
        self.zone.and_then(|zone| zones.get(zone).cloned()).unwrap_or_else(|| Zone::all(zones))
    }

    /// Its place among the sample's; none for all together.
    pub fn zone(&self) -> Option<usize> {
        self.zone
    }

    /// Zones that there are, all together being the first; and the place of the one that is shown.
    fn zones(&self) -> (usize, usize) {
        (1 + self.last.as_ref().map_or(0, |sample| sample.zones.len()), self.zone.map_or(0, |zone| zone + 1))
    }

    /// Kinds of pageblock that there are, in the order of the legend.
    pub fn kinds(&self) -> Vec<BlockKind> {
        let map = self.last.as_ref().and_then(|sample| sample.map.as_ref().ok());
        let there = |kind: &BlockKind| map.is_some_and(|map| map.blocks.iter().any(|block| block.kind == *kind));
        BlockKind::ALL.into_iter().filter(there).collect()
    }

    /// A key was pressed.
    pub fn press(&mut self, key: Key) -> Asked {
        if self.shows_help && !matches!(key, Key::Quit | Key::Pause) {
            match key {
                Key::Scroll(down) => self.help_scroll = scrolled(self.help_scroll, down),
                _ => self.shows_help = false,
            }
            return Asked::Nothing;
        }
        match key {
            Key::Quit => return Asked::Quit,
            Key::Back if self.is_zoomed => self.is_zoomed = false,
            Key::Back => return Asked::Quit,
            Key::Pause => {
                self.is_paused = !self.is_paused && self.ended.is_none();
                return Asked::Pause(self.is_paused);
            }
            Key::Turn(forwards) => self.turn(forwards),
            Key::Panel(number) => self.look_at(Panel::ALL.get(number.wrapping_sub(1)).copied()),
            Key::Zoom => {
                self.is_zoomed = !self.is_zoomed;
                self.scroll = 0;
            }
            Key::Every(longer) => {
                self.every = self.about.clock.step(self.every, longer);
                return Asked::Every(self.every);
            }
            Key::Zone(forwards) => {
                let (zones, at) = self.zones();
                let next = if forwards { at + 1 } else { at + zones - 1 } % zones;
                self.zone = next.checked_sub(1);
            }
            Key::Scroll(down) => self.scroll = scrolled(self.scroll, down),
            Key::Help => (self.shows_help, self.help_scroll) = (true, 0),
        }
        Asked::Nothing
    }

    fn turn(&mut self, forwards: bool) {
        let (count, at) = (Panel::ALL.len(), self.focus.number() - 1);
        self.look_at(Some(Panel::ALL[if forwards { at + 1 } else { at + count - 1 } % count]));
    }

    fn look_at(&mut self, panel: Option<Panel>) {
        self.focus = panel.unwrap_or(self.focus);
        self.scroll = 0;
    }
}

/// A row further down, or up.
fn scrolled(row: usize, down: bool) -> usize {
    if down { row + 1 } else { row.saturating_sub(1) }
}
