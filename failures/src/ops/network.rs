//! The links between the programs, the servers and the provider.

use std::net::SocketAddr;

use sandbox::servers::Link;

use crate::world::{Who, World};

impl World {
    /// The link between a program and the broker.
    pub fn broker_link(&mut self, who: Who) -> &mut Link {
        &mut self.member(who).broker
    }

    /// The link between a program and the database.
    ///
    /// # Panics
    /// When it has none.
    pub fn database_link(&mut self, who: Who) -> &mut Link {
        let link = self.member(who).database.as_mut();
        link.unwrap_or_else(|| panic!("{who} does not use the database"))
    }

    /// The link between the provider and an ingress.
    ///
    /// # Panics
    /// When it has none.
    pub fn hook_link(&mut self, who: Who) -> &mut Link {
        let link = self.member(who).hook.as_mut();
        link.unwrap_or_else(|| panic!("{who} takes no deliveries"))
    }

    /// The public port of an ingress, behind its link.
    ///
    /// # Panics
    /// When it has none.
    pub fn listen(&mut self, who: Who) -> SocketAddr {
        let listen = self.member(who).listen;
        listen.unwrap_or_else(|| panic!("{who} takes no deliveries"))
    }

    /// The link between a reconciler and the provider's API.
    ///
    /// # Panics
    /// When it has none.
    pub fn provider_link(&mut self, who: Who) -> &mut Link {
        let link = self.member(who).provider.as_mut();
        link.unwrap_or_else(|| panic!("{who} does not ask the provider"))
    }

    /// Cuts every program off from the database, as if its server were away. The judge still reads it.
    pub async fn cut_database(&mut self) {
        for link in self
            .members
            .iter_mut()
            .filter_map(|member| member.database.as_mut())
        {
            link.cut().await;
        }
    }

    /// Lets every program have the database again.
    pub async fn restore_database(&mut self) {
        for link in self
            .members
            .iter_mut()
            .filter_map(|member| member.database.as_mut())
        {
            link.restore().await;
        }
    }
}
