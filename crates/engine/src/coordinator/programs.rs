//! Programs that a client ships with its jobs, over one connection: an offer, the pieces if it is wanted, then submissions.

use super::planning::{self, Code};
use crate::job::{Plan, Request};
use crate::program::{Offer, Pin, Planner, ProgramId, ProgramStore, Upload};
use crate::wire::{FromClient, ProgramOffer, Rejection, RejectionCode, ToClient};
use std::sync::Arc;

/// State of one client connection. The program that was offered last is kept until the connection ends.
pub(super) struct ProgramSession {
    store: Arc<ProgramStore>,
    upload: Option<Box<Upload>>,
    pin: Option<Pin>,
}

impl ProgramSession {
    pub(super) fn new(store: Arc<ProgramStore>) -> ProgramSession {
        ProgramSession { store, upload: None, pin: None }
    }

    /// Handles an offer or a piece.
    pub(super) fn handle(&mut self, message: FromClient) -> ToClient {
        let rejected = |reason: String| RejectionCode::Invalid.because(reason).into();
        match message {
            FromClient::OfferProgram { program, bytes } => {
                (self.upload, self.pin) = (None, None);
                match self.store.offer(program, bytes) {
                    Ok(Offer::BuiltIn) => ToClient::ProgramOffered(ProgramOffer::BuiltIn),
                    Ok(Offer::Stored(pin)) => {
                        self.pin = Some(pin);
                        ToClient::ProgramOffered(ProgramOffer::Stored)
                    }
                    Ok(Offer::Wanted(upload)) => {
                        self.upload = Some(upload);
                        ToClient::ProgramOffered(ProgramOffer::Wanted)
                    }
                    Err(error) => rejected(error.to_string()),
                }
            }
            FromClient::ProgramPiece { bytes } => {
                let Some(mut upload) = self.upload.take() else { return rejected(NOT_OFFERED.into()) };
                match upload.add(&bytes) {
                    Ok(None) => self.upload = Some(upload),
                    Ok(pin) => self.pin = pin,
                    Err(error) => return rejected(error.to_string()),
                }
                ToClient::Done
            }
            _ => rejected(NOT_OFFERED.into()),
        }
    }

    /// Plans a job whose application is in the program. The error is for the client.
    pub(super) fn plan(&self, request: Request, planner: &Planner) -> Result<(Plan, Option<ProgramId>), Rejection> {
        let program = self.pin.as_ref().map(Pin::program).ok_or_else(|| RejectionCode::Invalid.because(NOT_OFFERED))?;
        let plan = planning::plan(request, Code::Shipped(planner, program));
        let plan = plan.map_err(|error| RejectionCode::Invalid.because(error.to_string()))?;
        Ok((plan, Some(program)))
    }
}

/// The answer to a client that does not follow the protocol.
const NOT_OFFERED: &str = "no program was offered on this connection; run the same release everywhere";
