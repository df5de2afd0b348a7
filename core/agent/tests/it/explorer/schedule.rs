//! What a schedule is made of: the moves of everybody around a driver, in one order.
//!
//! A move names what it acts on by its place among what waits, so that a schedule still makes
//! sense when moves are taken out of it; one that finds nothing to act on does nothing.

use fastrand::Rng;
use serde::{Deserialize, Serialize};

/// One run of one session.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Schedule {
    pub(super) setup: Setup,
    pub(super) steps: Vec<Step>,
}

/// What holds from the beginning.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Setup {
    /// Seeds whatever the driver draws.
    pub(super) seed: u64,
    /// How many updates the client's side holds.
    pub(super) room: usize,
    /// Whether the client reads as soon as it can, or when a move says so.
    pub(super) reads: bool,
    /// Whether each flush waits for a move.
    pub(super) paced: bool,
    /// Whether every look at the disk is made that can be made.
    pub(super) thorough: bool,
    /// The mode at the beginning.
    pub(super) mode: u8,
}

/// A move, and how often everybody may go on after it before the next one.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Step(pub(super) Op, pub(super) u8);

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Op {
    Prompt,
    Steer,
    Inject,
    /// Takes the n-th open input back.
    Withdraw(u8),
    Cancel,
    CancelTurn,
    Mode(u8),
    Route(u8),
    Status,
    Close,
    /// The newest stream says something.
    Model(Say),
    /// The n-th of what waits of this kind goes on.
    Go(Kind, u8, Reply),
    /// The next passage of this hook point does this.
    Arm(Point, Reply),
    /// Streams opened from now on ignore their token, or do not.
    Deaf(bool),
    /// A flush may be done.
    Flush,
    /// No flush will ever be done again.
    DiskGone,
    /// Time goes on by so many ms.
    Pass(u32),
    /// The client reads so many updates.
    Read(u8),
}

/// What a stream says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Say {
    Start,
    Text,
    Thought,
    EndBlock,
    /// A complete call: which tool, and what is special about it.
    Call(u8, u8),
    /// A call whose arguments go on.
    HalfCall,
    Usage,
    Stop(u8),
    Fail(u8),
    Panic,
    /// It ends without an end mark.
    Break,
}

/// What can wait for a move.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Kind {
    Plan,
    Body,
    Question,
    Hook,
}

/// What becomes of something that waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Reply {
    Yes,
    No,
    Cancelled,
    Error,
    Nobody,
    Panic,
    Change,
    Wait,
}

/// The hook points.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Point {
    PreStep,
    Request,
    Stream,
    RequestError,
    Stopping,
    ToolPre,
    ToolRun,
    ToolPost,
}

/// What can be done now.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Menu {
    pub(super) open: usize,
    pub(super) streams: usize,
    pub(super) calls_said: usize,
    pub(super) plans: usize,
    pub(super) bodies: usize,
    pub(super) questions: usize,
    pub(super) hooks: usize,
    pub(super) sleeps: usize,
    pub(super) flush_waits: bool,
    pub(super) unread: usize,
    pub(super) closing: bool,
}

impl Setup {
    pub(super) fn random(rng: &mut Rng) -> Self {
        Self {
            seed: rng.u64(..),
            room: *pick(rng, &[1, 3, 512, 512, 512]),
            reads: rng.u8(..4) > 0,
            paced: rng.u8(..3) == 0,
            thorough: rng.u8(..16) == 0,
            mode: rng.u8(..4),
        }
    }
}

pub(super) fn pick<'a, T>(rng: &mut Rng, from: &'a [T]) -> &'a T {
    &from[rng.usize(..from.len())]
}

impl Step {
    /// A move that does something now, mostly.
    pub(super) fn random(rng: &mut Rng, menu: &Menu) -> Self {
        Self(op(rng, menu), *pick(rng, &[0, 1, 2, 3, 4, 6, 8, 12]))
    }
}

fn op(rng: &mut Rng, menu: &Menu) -> Op {
    let mut choices: Vec<(u32, Op)> = vec![
        (if menu.open < 4 { 6 } else { 1 }, Op::Prompt),
        (2, Op::Steer),
        (1, Op::Inject),
        (1, Op::Withdraw(rng.u8(..4))),
        (2, Op::Cancel),
        (1, Op::CancelTurn),
        (1, Op::Mode(rng.u8(..5))),
        (1, Op::Status),
        (2, Op::Arm(point(rng), *pick(rng, &ARMED))),
    ];
    if menu.closing {
        choices.iter_mut().for_each(|choice| choice.0 = 1);
    }
    match rng.u8(..60) {
        0 => choices.push((10, Op::Close)),
        1 => choices.push((10, Op::Route(rng.u8(..2)))),
        2 => choices.push((10, Op::Deaf(rng.bool()))),
        3 if rng.u8(..8) == 0 => choices.push((10, Op::DiskGone)),
        _ => {}
    }
    let mut when = |there: bool, weight: u32, op: Op| {
        if there {
            choices.push((weight, op));
        }
    };
    when(menu.streams > 0, 24, Op::Model(say(rng, menu.calls_said)));
    let answer = *pick(rng, &ANSWERS);
    when(menu.questions > 0, 10, Op::Go(Kind::Question, rng.u8(..3), answer));
    let ended = *pick(rng, &ENDS);
    when(menu.bodies > 0, 10, Op::Go(Kind::Body, rng.u8(..4), ended));
    when(menu.plans > 0, 8, Op::Go(Kind::Plan, rng.u8(..2), ended));
    when(menu.hooks > 0, 6, Op::Go(Kind::Hook, 0, Reply::Yes));
    when(menu.sleeps > 0, 4, Op::Pass(*pick(rng, &[60, 150, 600, 1_000, 3_000, 31_000])));
    when(menu.flush_waits, 24, Op::Flush);
    when(menu.unread > 0, 14, Op::Read(rng.u8(1..6)));
    let sum: u32 = choices.iter().map(|choice| choice.0).sum();
    let mut at = rng.u32(..sum);
    for (weight, op) in choices {
        if at < weight {
            return op;
        }
        at -= weight;
    }
    unreachable!("the weights were summed")
}

const ANSWERS: [Reply; 8] = [
    Reply::Yes,
    Reply::Yes,
    Reply::Yes,
    Reply::No,
    Reply::Cancelled,
    Reply::Error,
    Reply::Nobody,
    Reply::Panic,
];

const ENDS: [Reply; 6] =
    [Reply::Yes, Reply::Yes, Reply::Yes, Reply::No, Reply::Panic, Reply::Change];

const ARMED: [Reply; 6] =
    [Reply::Wait, Reply::Wait, Reply::No, Reply::Panic, Reply::Change, Reply::Cancelled];

fn point(rng: &mut Rng) -> Point {
    const POINTS: [Point; 8] = [
        Point::PreStep,
        Point::Request,
        Point::Stream,
        Point::RequestError,
        Point::Stopping,
        Point::ToolPre,
        Point::ToolRun,
        Point::ToolPost,
    ];
    *pick(rng, &POINTS)
}

fn say(rng: &mut Rng, calls: usize) -> Say {
    match rng.u8(..30) {
        0 => Say::Start,
        1..=6 => Say::Text,
        7 => Say::Thought,
        8..=9 => Say::EndBlock,
        10..=17 if calls < 4 => Say::Call(rng.u8(..4), rng.u8(..16)),
        18 => Say::HalfCall,
        19 => Say::Usage,
        20..=21 => Say::Fail(rng.u8(..13)),
        22 if rng.bool() => Say::Panic,
        23 => Say::Break,
        _ if calls > 0 => Say::Stop(1),
        _ => Say::Stop(*pick(rng, &[0, 0, 0, 0, 1, 2, 3, 4, 5])),
    }
}
