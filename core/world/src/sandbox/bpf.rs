//! Programs for the kernel's seccomp machine: which system calls get which answer.
//!
//! A program finds the rule of a call by halving, one rule for each call that is not simply allowed.
//! When it is loaded, the kernel plays it for every call that there is, to know which are always allowed:
//! with a plain list each command would begin with that.

use libc::{
    BPF_ABS, BPF_JA, BPF_JEQ, BPF_JGE, BPF_JMP, BPF_JSET, BPF_K, BPF_LD, BPF_RET, BPF_W,
    SECCOMP_RET_ALLOW, SECCOMP_RET_ERRNO, SECCOMP_RET_KILL_PROCESS, SECCOMP_RET_USER_NOTIF,
    sock_filter,
};

/// The machine whose numbers the rules use.
#[cfg(target_arch = "x86_64")]
const ARCHITECTURE: u32 = 0xC000_003E;
/// The machine whose numbers the rules use.
#[cfg(target_arch = "aarch64")]
const ARCHITECTURE: u32 = 0xC000_00B7;

/// The first number of the second table that x86_64 kernels have for the same calls.
#[cfg(target_arch = "x86_64")]
const OTHER_TABLE: Option<u32> = Some(0x4000_0000);
/// There is one table only.
#[cfg(target_arch = "aarch64")]
const OTHER_TABLE: Option<u32> = None;

/// Where the parts of a call stand in what the machine reads, in bytes.
const NUMBER: u32 = 0;
const MACHINE: u32 = 4;
const ARGUMENTS: u32 = 16;

/// What happens to a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Action {
    Allow,
    /// It fails with this error.
    Fail(u16),
    /// Whoever holds the listener answers.
    Ask,
}

/// Something about one argument; only its lower 32 bits are looked at.
#[derive(Clone, Copy, Debug)]
pub(super) enum Condition {
    Is(u32, u32),
    HasAny(u32, u32),
}

/// What to do with one system call: the action of the first case of which every condition holds.
#[derive(Clone, Debug)]
pub(super) struct Rule {
    number: u32,
    cases: Vec<(Vec<Condition>, Action)>,
    otherwise: Action,
}

impl Rule {
    /// The same action whatever the arguments are.
    pub(super) fn always(number: i64, action: Action) -> Self {
        Self { number: number_of(number), cases: Vec::new(), otherwise: action }
    }

    /// Allowed unless one of the cases holds.
    pub(super) fn unless(number: i64, cases: Vec<(Vec<Condition>, Action)>) -> Self {
        Self { number: number_of(number), cases, otherwise: Action::Allow }
    }

    /// With another action for when no case holds.
    pub(super) fn or(self, otherwise: Action) -> Self {
        Self { otherwise, ..self }
    }

    /// The number of its call.
    #[cfg(test)]
    pub(super) fn number(&self) -> u32 {
        self.number
    }

    fn assemble(&self) -> Vec<sock_filter> {
        let mut code = Vec::new();
        for (conditions, action) in &self.cases {
            for (place, condition) in conditions.iter().enumerate() {
                let (argument, jump, value) = match *condition {
                    Condition::Is(argument, value) => (argument, BPF_JEQ, value),
                    Condition::HasAny(argument, value) => (argument, BPF_JSET, value),
                };
                // Two instructions for each further condition, and the action.
                let rest = 2 * (conditions.len() - place - 1) + 1;
                code.push(load(ARGUMENTS + 8 * argument));
                code.push(jump_unless(jump, value, rest));
            }
            code.push(answer(*action));
        }
        code.push(answer(self.otherwise));
        code
    }
}

/// How many rules are asked one after the other.
const TOGETHER: usize = 3;

/// The program for `rules`, at most one for each call. What no rule is for is allowed.
pub(super) fn assemble(rules: &[Rule]) -> Vec<sock_filter> {
    let mut rules: Vec<&Rule> = rules.iter().collect();
    rules.sort_unstable_by_key(|rule| rule.number);
    let mut code = vec![
        load(MACHINE),
        sock_filter { code: (BPF_JMP | BPF_JEQ | BPF_K) as u16, jt: 1, jf: 0, k: ARCHITECTURE },
        statement(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
        load(NUMBER),
    ];
    if let Some(first) = OTHER_TABLE {
        code.push(jump_unless(BPF_JSET, first, 1));
        code.push(answer(Action::Fail(libc::ENOSYS as u16)));
    }
    code.extend(search(&rules));
    code
}

/// What answers a call whose rule, if it has one, is among these, sorted by their numbers.
fn search(rules: &[&Rule]) -> Vec<sock_filter> {
    let mut code = Vec::new();
    let (below, above) = rules.split_at(rules.len() / 2);
    match above.first() {
        Some(first) if rules.len() > TOGETHER => {
            let below = search(below);
            code.push(jump_unless(BPF_JGE, first.number, 1));
            // Only this jump reaches as far as it has to.
            code.push(statement(BPF_JMP | BPF_JA, below.len() as u32));
            code.extend(below);
            code.extend(search(above));
        }
        _ => {
            for rule in rules {
                let block = rule.assemble();
                code.push(jump_unless(BPF_JEQ, rule.number, block.len()));
                code.extend(block);
            }
            code.push(answer(Action::Allow));
        }
    }
    code
}

/// A call number as the kernel reads it. Every number is small and positive.
fn number_of(number: i64) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}

fn load(offset: u32) -> sock_filter {
    statement(BPF_LD | BPF_W | BPF_ABS, offset)
}

/// Goes on behind the next `count` instructions when the test fails. Blocks are short; one that
/// were not would jump too short, to an action of its own or the next test.
fn jump_unless(test: u32, value: u32, count: usize) -> sock_filter {
    let jf = u8::try_from(count).unwrap_or(u8::MAX);
    sock_filter { code: (BPF_JMP | test | BPF_K) as u16, jt: 0, jf, k: value }
}

fn answer(action: Action) -> sock_filter {
    let value = match action {
        Action::Allow => SECCOMP_RET_ALLOW,
        Action::Fail(error) => SECCOMP_RET_ERRNO | u32::from(error),
        Action::Ask => SECCOMP_RET_USER_NOTIF,
    };
    statement(BPF_RET | BPF_K, value)
}

fn statement(code: u32, k: u32) -> sock_filter {
    sock_filter { code: code as u16, jt: 0, jf: 0, k }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// Runs a program as the kernel would.
    pub(crate) fn run(code: &[sock_filter], machine: u32, number: i64, arguments: [u64; 6]) -> u32 {
        let (mut at, mut value) = (0, 0);
        loop {
            let step = code[at];
            at += 1;
            match u32::from(step.code) {
                c if c == BPF_LD | BPF_W | BPF_ABS => {
                    value = match step.k {
                        NUMBER => number as u32,
                        MACHINE => machine,
                        offset => arguments[((offset - ARGUMENTS) / 8) as usize] as u32,
                    }
                }
                c if c == BPF_JMP | BPF_JEQ | BPF_K => {
                    at += usize::from(if value == step.k { step.jt } else { step.jf });
                }
                c if c == BPF_JMP | BPF_JGE | BPF_K => {
                    at += usize::from(if value >= step.k { step.jt } else { step.jf });
                }
                c if c == BPF_JMP | BPF_JA => at += step.k as usize,
                c if c == BPF_JMP | BPF_JSET | BPF_K => {
                    at += usize::from(if value & step.k != 0 { step.jt } else { step.jf });
                }
                c if c == BPF_RET | BPF_K => return step.k,
                c => panic!("instruction {c:#x}"),
            }
        }
    }

    pub(crate) fn outcome(rules: &[Rule], number: i64, arguments: [u64; 6]) -> u32 {
        run(&assemble(rules), ARCHITECTURE, number, arguments)
    }

    #[test]
    fn each_call_gets_the_answer_of_its_own_rule() {
        let rules = [
            Rule::always(7, Action::Fail(1)),
            Rule::unless(
                8,
                vec![
                    (vec![Condition::Is(0, 5), Condition::HasAny(2, 0b110)], Action::Ask),
                    (vec![Condition::Is(0, 6)], Action::Fail(2)),
                ],
            ),
            Rule::unless(9, vec![(vec![Condition::Is(1, 3)], Action::Allow)]).or(Action::Fail(3)),
        ];
        let fail = |error| SECCOMP_RET_ERRNO | error;
        for (number, arguments, expected) in [
            (7, [0; 6], fail(1)),
            (8, [5, 0, 0b010, 0, 0, 0], SECCOMP_RET_USER_NOTIF),
            (8, [5, 0, 0b001, 0, 0, 0], SECCOMP_RET_ALLOW),
            (8, [6, 0, 0b010, 0, 0, 0], fail(2)),
            (8, [7, 0, 0b111, 0, 0, 0], SECCOMP_RET_ALLOW),
            (9, [0, 3, 0, 0, 0, 0], SECCOMP_RET_ALLOW),
            (9, [0, 4, 0, 0, 0, 0], fail(3)),
            (10, [5; 6], SECCOMP_RET_ALLOW),
        ] {
            assert_eq!(outcome(&rules, number, arguments), expected, "{number} {arguments:?}");
        }
    }

    #[test]
    fn each_of_many_rules_is_found_and_nothing_beside_it() {
        for count in 0..70 {
            // Every other number, in no order.
            let mut rules: Vec<Rule> = (0..count)
                .map(|place| Rule::always(10 + 2 * place, Action::Fail(100 + place as u16)))
                .collect();
            rules.reverse();
            for place in 0..count {
                let expected = SECCOMP_RET_ERRNO | (100 + place as u32);
                assert_eq!(outcome(&rules, 10 + 2 * place, [0; 6]), expected, "{place} of {count}");
                assert_eq!(outcome(&rules, 11 + 2 * place, [0; 6]), SECCOMP_RET_ALLOW);
            }
            assert_eq!(outcome(&rules, 8, [0; 6]), SECCOMP_RET_ALLOW);
        }
    }

    #[test]
    fn calls_of_another_machine_end_the_process() {
        let code = assemble(&[]);
        assert_eq!(run(&code, 0x4000_0003, 1, [0; 6]), SECCOMP_RET_KILL_PROCESS);
        assert_eq!(run(&code, ARCHITECTURE, 1, [0; 6]), SECCOMP_RET_ALLOW);
    }

    #[cfg(target_arch = "x86_64")]
    #[test]
    fn the_second_table_of_calls_does_not_exist() {
        let code = assemble(&[Rule::always(41, Action::Ask)]);
        let refused = SECCOMP_RET_ERRNO | libc::ENOSYS as u32;
        assert_eq!(run(&code, ARCHITECTURE, 0x4000_0000 + 41, [0; 6]), refused);
    }
}
