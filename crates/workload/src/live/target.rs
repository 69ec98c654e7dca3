//! Where a workload is at work, one connection to it, and what its refusals mean.

use std::time::Duration;

use super::ended::{Ended, Failure};
use super::error::LiveError;
use super::sql::Sql;
use crate::client::{Client, Says};

/// Longest wait for a connection.
const CONNECT_TIME_MAX: Duration = Duration::from_secs(5);

/// What servers say when they have all the connections that they take, and what the limit is called there.
const FULL: [(&str, &str); 3] = [
    ("max number of clients reached", "--clients-max of forebay, maxclients of Redis"),
    ("(SQLSTATE 53300)", "max_connections of PostgreSQL, or the role's or the database's"),
    ("remaining connection slots are reserved", "max_connections of PostgreSQL"),
];

/// Where a workload is at work.
#[derive(Clone, Debug)]
pub enum Target {
    /// A RESP server, forebay or another.
    Resp {
        /// `127.0.0.1:6379`.
        address: String,
        /// User and password, if it wants them.
        login: Option<(String, String)>,
    },
    /// PostgreSQL itself.
    #[cfg(feature = "postgres")]
    Direct {
        /// Which.
        address: std::sync::Arc<forebay_drivers::postgres::address::Address>,
        /// If it wants one.
        password: Option<Vec<u8>>,
    },
}

impl Target {
    /// A RESP server without a password.
    pub fn resp(address: &str) -> Target {
        Target::Resp { address: address.to_owned(), login: None }
    }

    /// PostgreSQL at a URL, or what is wrong with it; that does not quote the URL, which may hold a password.
    pub fn direct(url: &str, password: Option<Vec<u8>>) -> Result<Target, LiveError> {
        #[cfg(feature = "postgres")]
        return match url.parse() {
            Ok(address) => Ok(Target::Direct { address: std::sync::Arc::new(address), password }),
            Err(why) => Err(LiveError::Parameters(why)),
        };
        #[cfg(not(feature = "postgres"))]
        {
            drop((url, password));
            Err(LiveError::Parameters("this program was built without the feature `postgres`".into()))
        }
    }

    /// Whether it is a database.
    pub fn is_direct(&self) -> bool {
        !matches!(self, Target::Resp { .. })
    }

    /// Where it is, for people.
    pub fn place(&self) -> String {
        match self {
            Target::Resp { address, .. } => address.clone(),
            #[cfg(feature = "postgres")]
            Target::Direct { address, .. } => format!("PostgreSQL {}", address.place()),
        }
    }

    /// One more connection.
    pub async fn connect(&self) -> Result<Session, Failure> {
        match tokio::time::timeout(CONNECT_TIME_MAX, self.open()).await {
            Ok(opened) => opened,
            Err(_) => Err(Failure::unreachable(format!("no connection within {} s", CONNECT_TIME_MAX.as_secs()))),
        }
    }

    async fn open(&self) -> Result<Session, Failure> {
        match self {
            Target::Resp { address, login } => {
                let mut client = Client::connect(address).await?;
                if let Some((user, password)) = login {
                    client.demand(&["AUTH", user, password]).await?;
                }
                Ok(Session::Resp(client))
            }
            #[cfg(feature = "postgres")]
            Target::Direct { address, password } => Ok(Session::Sql(Sql::connect(address, password.as_deref()).await?)),
        }
    }

    /// A first connection, whose failure is the user's to mend.
    pub async fn first(&self) -> Result<Session, LiveError> {
        let unreachable = |Failure { text: why, .. }: Failure| {
            let target = self.place();
            match FULL.iter().find(|(said, _)| why.contains(said)) {
                Some((_, limit)) => LiveError::NoMoreConnections { target, why, limit },
                None => LiveError::Unreachable { target, why },
            }
        };
        let mut session = self.connect().await.map_err(unreachable)?;
        if let Session::Resp(client) = &mut session {
            // A server that wants a password would otherwise close the connection in the middle of a load.
            client.demand(&["PING"]).await.map_err(|error| unreachable(error.into()))?;
        }
        Ok(session)
    }
}

/// One connection.
pub enum Session {
    /// To a RESP server.
    Resp(Client),
    /// To PostgreSQL.
    Sql(Sql),
}

impl Session {
    /// Begins a transaction.
    pub async fn begin(&mut self) -> Result<(), Failure> {
        match self {
            Session::Resp(client) => client.demand(&["TXN", "BEGIN"]).await.map(drop).map_err(Failure::from),
            Session::Sql(sql) => sql.script("BEGIN").await,
        }
    }

    /// Commits it.
    pub async fn commit(&mut self) -> Result<Ended, Failure> {
        match self {
            Session::Resp(client) => {
                let reply = client.demand(&["TXN", "COMMIT"]).await?;
                let buffered = reply.bytes().is_some_and(|text| text.starts_with(b"BUFFERED"));
                Ok(if buffered { Ended::Buffered } else { Ended::Done })
            }
            Session::Sql(sql) => sql.script("COMMIT").await.map(|()| Ended::Done),
        }
    }

    /// Leaves a transaction in which something failed; `failure` again, which may have become worse.
    pub async fn abort(&mut self, failure: Failure) -> Failure {
        if failure.lost {
            return failure;
        }
        let left = match self {
            // An error says that the server has ended it already.
            Session::Resp(client) => client.call(&["TXN", "ABORT"]).await.map(drop).map_err(Failure::from),
            Session::Sql(sql) => sql.script("ROLLBACK").await,
        };
        match left {
            Ok(()) => failure,
            Err(_) => Failure { lost: true, ..failure },
        }
    }
}
