//! A desk that writes down what it is asked and answers as it was told.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures::future::BoxFuture;
use protocol::question::{Answers, Question};
use tokio::sync::watch;
use tools::{Ask, Desk, Effects, Progress, Refusal, ToolError};

type Judge = Box<dyn Fn(&Ask) -> Result<(), Refusal> + Send + Sync>;
type Reply = Box<dyn Fn(&[Question]) -> Result<Answers, Refusal> + Send + Sync>;

pub struct FakeDesk {
    judge: Mutex<Judge>,
    reply: Mutex<Reply>,
    pub asks: Mutex<Vec<Ask>>,
    pub questions: Mutex<Vec<Question>>,
    pub begun: watch::Sender<usize>,
    pub progress: watch::Sender<Vec<Progress>>,
}

impl FakeDesk {
    /// Allows everything and answers no question.
    pub fn new() -> Arc<Self> {
        Arc::new(Self {
            judge: Mutex::new(Box::new(|_| Ok(()))),
            reply: Mutex::new(Box::new(|_| Err(Refusal::Dismissed))),
            asks: Mutex::default(),
            questions: Mutex::default(),
            begun: watch::Sender::new(0),
            progress: watch::Sender::new(Vec::new()),
        })
    }

    pub fn judge(&self, judge: impl Fn(&Ask) -> Result<(), Refusal> + Send + Sync + 'static) {
        *lock(&self.judge) = Box::new(judge);
    }

    pub fn reply(&self, reply: impl Fn(&[Question]) -> Result<Answers, Refusal> + Send + Sync + 'static) {
        *lock(&self.reply) = Box::new(reply);
    }
}

impl Desk for FakeDesk {
    fn ask(&self, ask: Ask) -> BoxFuture<'_, Result<(), Refusal>> {
        let verdict = (lock(&self.judge))(&ask);
        lock(&self.asks).push(ask);
        Box::pin(async { verdict })
    }

    fn question(&self, questions: Vec<Question>) -> BoxFuture<'_, Result<Answers, Refusal>> {
        let answers = (lock(&self.reply))(&questions);
        lock(&self.questions).extend(questions);
        Box::pin(async { answers })
    }

    fn begin(&self) -> BoxFuture<'_, Result<Effects, ToolError>> {
        self.begun.send_modify(|count| *count += 1);
        Box::pin(async { Ok(Effects::stored()) })
    }

    fn progress(&self, progress: Progress) {
        self.progress.send_modify(|all| all.push(progress));
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
