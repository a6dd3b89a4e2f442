//! The loop on a terminal: keys and samples in, frames out, and the terminal restored at the end.
//!
//! The terminal is restored whatever ends the loop: a key, an error, a panic (the hook of [`ratatui::try_init`]), or a
//! signal that asks the program to end. Signals are noted and looked for ten times a second. Ctrl-C is a key here,
//! because the terminal is in raw mode. A terminal that disappears (a window closed, a line lost) ends the loop as
//! well. A separate thread reads the keys: the reader retries a terminal that is gone for ever, while the loop checks
//! that it still exists.
//!
//! A frame is drawn when something changed, at most ten times a second. ratatui sends only the cells that differ, so a
//! slow line is enough.

use std::fs::File;
use std::io::{self, IsTerminal};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;
use std::time::{Duration, Instant};

use ratatui::crossterm::event::{self, Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM};

use super::draw::{Theme, draw};
use super::feed::{Feed, Told};
use super::state::{Asked, Key, Screen, TimeBase};

/// How often the source and the signals are looked for.
const TICK: Duration = Duration::from_millis(100);
/// Over how long the speed of a simulated clock is measured.
const SPEED: Duration = Duration::from_secs(1);

/// Shows the screen until the user leaves.
///
/// # Errors
/// The terminal cannot be read or written.
pub fn run(top: &mut Screen, feed: &Feed, theme: Theme) -> io::Result<()> {
    let ends = Arc::new(AtomicBool::new(false));
    for signal in [SIGHUP, SIGINT, SIGQUIT, SIGTERM] {
        signal_hook::flag::register(signal, ends.clone())?;
    }
    let source = key_source()?;
    let mut terminal = ratatui::try_init()?;
    let keys = Keys::read_from(source);
    let shown = loop_on(&mut terminal, (top, feed), theme, (&keys, &ends));
    if !keys.is_there()? {
        // There is nothing to restore, and no terminal for a message about it.
        std::mem::forget(terminal);
        return Ok(());
    }
    let restored = ratatui::try_restore();
    shown.and(restored)
}

fn loop_on(
    terminal: &mut ratatui::DefaultTerminal,
    (top, feed): (&mut Screen, &Feed),
    theme: Theme,
    (keys, ends): (&Keys, &AtomicBool),
) -> io::Result<()> {
    let mut speed = Speed { since: Instant::now(), at: 0.0 };
    let mut is_changed = true;
    while !ends.load(Ordering::Relaxed) {
        if std::mem::take(&mut is_changed) {
            terminal.draw(|frame| draw(top, theme, frame.buffer_mut()))?;
        }
        let tick = Instant::now() + TICK;
        loop {
            let event = match keys.wait(tick.saturating_duration_since(Instant::now()))? {
                Came::Event(event) => event,
                Came::Nothing => break,
                Came::End => return Ok(()),
            };
            is_changed = true;
            let asked = match event {
                Event::Key(key) if key.kind != KeyEventKind::Release => key_of(key).map(|key| top.press(key)),
                _ => None,
            };
            match asked {
                Some(Asked::Quit) => return Ok(()),
                Some(Asked::Pause(is_paused)) => feed.pause(is_paused),
                Some(Asked::Every(seconds)) => feed.every(seconds),
                Some(Asked::Nothing) | None => {}
            }
            if is_changed {
                break;
            }
        }
        // A paused screen stays as it is.
        if !top.is_paused && top.ended.is_none() {
            is_changed |= hear(top, feed);
            speed.note(top);
        }
    }
    Ok(())
}

/// The terminal that keys are read from: the standard input if it is one.
fn key_source() -> io::Result<OwnedFd> {
    let stdin = io::stdin();
    if stdin.is_terminal() { stdin.as_fd().try_clone_to_owned() } else { Ok(File::open("/dev/tty")?.into()) }
}

/// The terminal, as where keys come from.
struct Keys {
    terminal: OwnedFd,
    events: Receiver<io::Result<Event>>,
}

/// The result of waiting for a key.
enum Came {
    /// A key, or another size.
    Event(Event),
    /// Nothing in that time.
    Nothing,
    /// The terminal went away.
    End,
}

impl Keys {
    /// Starts to read them. The thread that does ends with the program.
    fn read_from(terminal: OwnedFd) -> Keys {
        let (tell, events) = channel();
        thread::spawn(move || while tell.send(event::read()).is_ok() {});
        Keys { terminal, events }
    }

    /// Waits for a key, for so long at most.
    fn wait(&self, most: Duration) -> io::Result<Came> {
        match self.events.recv_timeout(most) {
            Ok(event) => event.map(Came::Event),
            Err(RecvTimeoutError::Timeout) if self.is_there()? => Ok(Came::Nothing),
            Err(_) => Ok(Came::End),
        }
    }

    /// Whether the terminal is still there.
    fn is_there(&self) -> io::Result<bool> {
        let mut terminal = [PollFd::new(&self.terminal, PollFlags::empty())];
        match poll(&mut terminal, Some(&Timespec::default())) {
            // A signal: the caller checks which one.
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        Ok(!terminal[0].revents().intersects(PollFlags::HUP | PollFlags::ERR | PollFlags::NVAL))
    }
}

/// Takes what the source said; whether that was anything.
fn hear(top: &mut Screen, feed: &Feed) -> bool {
    let Some(heard) = feed.heard() else {
        top.ended.get_or_insert_with(|| "the source is gone".to_owned());
        return true;
    };
    let is_anything = !heard.is_empty();
    heard.into_iter().for_each(|told| tell(top, told));
    is_anything
}

/// The state takes what a source said.
pub fn tell(top: &mut Screen, told: Told) {
    match told {
        Told::Sample(sample) => top.take(*sample),
        Told::Rests => top.is_paused = true,
        Told::Ended(reason, _) => top.ended = Some(reason),
    }
}

/// How fast a simulated clock goes.
struct Speed {
    since: Instant,
    at: f64,
}

impl Speed {
    fn note(&mut self, top: &mut Screen) {
        let (TimeBase::Simulated, Some(at)) = (top.about.clock, top.sample().map(|sample| sample.at)) else { return };
        let passed = self.since.elapsed();
        if passed >= SPEED {
            top.speed = Some((at - self.at) / passed.as_secs_f64());
            *self = Speed { since: Instant::now(), at };
        }
    }
}

/// A key's meaning; none if it has none here.
fn key_of(key: KeyEvent) -> Option<Key> {
    let is_control = key.modifiers.contains(KeyModifiers::CONTROL);
    Some(match key.code {
        KeyCode::Char('c' | 'd') if is_control => Key::Quit,
        KeyCode::Char(_) if is_control => return None,
        KeyCode::Char('q' | 'Q') => Key::Quit,
        KeyCode::Esc => Key::Back,
        KeyCode::Char(' ' | 'p') => Key::Pause,
        KeyCode::Tab | KeyCode::Right | KeyCode::Char('l') => Key::Turn(true),
        KeyCode::BackTab | KeyCode::Left => Key::Turn(false),
        KeyCode::Char(digit @ '1'..='5') => Key::Panel(digit as usize - '0' as usize),
        KeyCode::Enter | KeyCode::Char('f') => Key::Zoom,
        KeyCode::Char('+' | '=') => Key::Every(true),
        KeyCode::Char('-' | '_') => Key::Every(false),
        KeyCode::Char('z') => Key::Zone(true),
        KeyCode::Char('Z') => Key::Zone(false),
        KeyCode::Down | KeyCode::Char('j') => Key::Scroll(true),
        KeyCode::Up | KeyCode::Char('k') => Key::Scroll(false),
        KeyCode::Char('?' | 'h') | KeyCode::F(1) => Key::Help,
        _ => return None,
    })
}
