//! A new secret, made known to both ends of the line in one order or another.

use super::operation::{Breakage, Order};
use super::walker::Walker;
use crate::world::{Kind, Who};

const SECRETS: &str = "WEBHOOK_SECRETS";

impl Walker {
    pub(super) async fn begin_rotation(&mut self, order: Order) {
        self.rotations += 1;
        let (old, new) = (self.world.secret.clone(), self.world.secret_of(self.rotations));
        match order {
            Order::ReceiverFirst => {
                let both = format!("{},{}", new.text(), old.text());
                self.restart_ingresses_with(&both).await;
                self.world.rotate_secret(&new);
            }
            Order::SenderFirst => self.world.rotate_secret(&new),
            Order::OutOfOrder => {
                self.world.rotate_secret(&new);
                self.world.retire_old_secrets();
            }
        }
        // What was signed before and is still on its way is refused rightly.
        self.refusals_excused = true;
    }

    pub(super) async fn end_rotation(&mut self, order: Order) {
        let new = self.world.secret.text().to_owned();
        match order {
            Order::ReceiverFirst => {
                self.world.retire_old_secrets();
                // Every ingress knows the new one; the old one goes at its next start.
                for who in self.world.all(Kind::Ingress) {
                    self.world.set(who, SECRETS, &new);
                }
            }
            Order::SenderFirst => {
                self.restart_ingresses_with(&new).await;
                self.world.retire_old_secrets();
            }
            Order::OutOfOrder => self.restart_ingresses_with(&new).await,
        }
    }

    /// One after the other, as in a deployment. One that does not run starts with them later.
    async fn restart_ingresses_with(&mut self, secrets: &str) {
        for who in self.world.all(Kind::Ingress) {
            self.world.set(who, SECRETS, secrets);
            if self.state.runs(who) {
                self.world.stop(who).await;
                self.world.begin(who);
            } else if self.state.is(Breakage::Frozen(who)) {
                self.replace_frozen(who);
            }
        }
    }

    /// One that stands still cannot be stopped in order.
    fn replace_frozen(&mut self, who: Who) {
        self.world.kill(who);
        self.state.mended(Breakage::Frozen(who));
        self.broke(Breakage::Killed(who));
    }
}
