//! Each rule seen refusing a request that breaks it, honest conversations seen passing, and every
//! kind of reply seen on the wire. The client here is a bare socket.

mod client;
mod conversation;
mod replies;
mod requests;
mod rules;
mod thinking;
