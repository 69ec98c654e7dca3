//! A small shop: what `forebay demo` runs. Customers browse, fill carts and buy; the stock never goes below zero, and
//! nothing is sold that was never there.
//!
//! | key | what it is |
//! |---|---|
//! | `product:<n>` | hash: name, price, stock, sold, supplied |
//! | `user:<n>` | hash: name, orders (how many), last (the last one) |
//! | `cart:<n>` | hash: product to pieces |
//! | `order:<client>:<n>` | hash: user, pieces, total; the oldest are overwritten |
//!
//! Buying is done in both ways that there are: `TXN BEGIN` .. `TXN COMMIT` with reads inside, and `WATCH`, `MULTI`,
//! `EXEC`. [`check`] reads all products in one transaction: in each, stock and sold make up what was supplied.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use forebay_protocol::Reply;
use thiserror::Error;
use tokio::time::Instant;

use crate::checkers::Violation;
use crate::checkers::transact::{self, Attempt, Stopped, begin, call, clean_up, commit, script, watch};
use crate::client::{Client, ClientError, Says, refused};

/// Pieces of each product at first, and with each delivery.
pub const SUPPLY: i64 = 100;

/// Orders that each client keeps before it overwrites the oldest.
const ORDERS_MAX: u64 = 1000;

/// Times that a purchase is tried again when others are in its way.
const TRIES_MAX: u32 = 20;

/// Pause before a client connects again.
const RECONNECT_PAUSE: Duration = Duration::from_millis(200);

/// How large and how busy the shop is.
#[derive(Clone, Debug)]
pub struct ShopOptions {
    /// The server: `127.0.0.1:6379`.
    pub address: String,
    /// Clients at the same time.
    pub clients: u32,
    /// Visits per second, all clients together; each is one to five requests.
    pub visits_per_second: u32,
    /// Products on sale.
    pub products: u64,
    /// Customers.
    pub users: u64,
    /// What the choices are drawn from.
    pub seed: u64,
}

impl ShopOptions {
    /// A shop that keeps a demo busy without filling the machine.
    pub fn new(address: &str) -> ShopOptions {
        let address = address.to_owned();
        ShopOptions { address, clients: 8, visits_per_second: 400, products: 500, users: 2000, seed: 1 }
    }
}

/// Live figures; read them at any time.
#[derive(Debug, Default)]
pub struct ShopStats {
    /// Looks at products, users and orders.
    pub browsed: AtomicU64,
    /// Pieces put into carts.
    pub added: AtomicU64,
    /// Purchases that committed.
    pub bought: AtomicU64,
    /// Purchases that found too little stock; they left no trace.
    pub sold_out: AtomicU64,
    /// Deliveries of new stock.
    pub supplied: AtomicU64,
    /// Purchases tried again because another transaction was in the way.
    pub retries: AtomicU64,
    /// Purchases of unknown outcome: the server went away in the middle.
    pub unknown: AtomicU64,
    /// Connections lost, or not got.
    pub lost: AtomicU64,
    /// Answers that nobody should get.
    pub errors: AtomicU64,
}

/// A running shop.
pub struct Shop {
    options: ShopOptions,
    /// Live figures.
    pub stats: Arc<ShopStats>,
    stop: Arc<AtomicBool>,
    tasks: tokio::task::JoinSet<()>,
}

/// Why the shop can't be opened or checked.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ShopError {
    /// The server can't be reached, or refuses.
    #[error(transparent)]
    Client(#[from] ClientError),
    /// The books don't balance.
    #[error("the shop's books don't balance: {0}")]
    Violation(#[from] Violation),
    /// Others were in the way all the time.
    #[error("the products could not be read in one transaction: {0}")]
    Busy(String),
}

impl From<Stopped> for ShopError {
    fn from(stopped: Stopped) -> ShopError {
        match stopped {
            Stopped::Client(error) => ShopError::Client(error),
            Stopped::Aborted(why) | Stopped::Unknown(why) => ShopError::Busy(why),
        }
    }
}

/// What the books said when they were checked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Books {
    /// Pieces in stock.
    pub stock: i64,
    /// Pieces sold.
    pub sold: i64,
    /// Pieces that were ever supplied: the sum of the two.
    pub supplied: i64,
}

/// Opens a shop: writes the products and users that are missing, then lets customers in.
pub async fn run(options: &ShopOptions) -> Result<Shop, ShopError> {
    let mut client = Client::connect(&options.address).await?;
    set_up(&mut client, options).await?;
    let (stats, stop) = (Arc::new(ShopStats::default()), Arc::new(AtomicBool::new(false)));
    let mut tasks = tokio::task::JoinSet::new();
    for number in 0..options.clients.max(1) {
        let random = fastrand::Rng::with_seed(options.seed.wrapping_mul(0x9e37_79b9).wrapping_add(number.into()));
        let (options, stats, stop) = (options.clone(), stats.clone(), stop.clone());
        tasks.spawn(Customer { number, options, stats, stop, random, orders: 0 }.stay());
    }
    Ok(Shop { options: options.clone(), stats, stop, tasks })
}

impl Shop {
    /// Checks the books while customers go on.
    pub async fn check(&self) -> Result<Books, ShopError> {
        check(&self.options).await
    }

    /// Lets the last customers finish, and checks the books.
    pub async fn close(mut self) -> Result<Books, ShopError> {
        self.stop.store(true, Ordering::Relaxed);
        while self.tasks.join_next().await.is_some() {}
        check(&self.options).await
    }
}

/// Reads all products in one transaction: none has a negative stock, in each stock and sold make up what was supplied.
pub async fn check(options: &ShopOptions) -> Result<Books, ShopError> {
    let mut client = Client::connect(&options.address).await?;
    let fields = ["stock", "sold", "supplied"];
    let command = |n: u64| transact::command(["HMGET", &product(n), fields[0], fields[1], fields[2]]);
    let commands: Vec<_> = (0..options.products).map(command).collect();
    let replies = script(&mut client, &mut Attempt::default(), &commands).await?;
    let mut books = Books::default();
    for (n, reply) in replies.iter().enumerate() {
        let figures = transact::numbers("HMGET", reply)?;
        let [stock, sold, supplied] = figures[..] else { return Err(refused("HMGET", reply).into()) };
        if stock < 0 || stock + sold != supplied {
            let why = format!("product {n} has {stock} in stock and {sold} sold of {supplied} supplied");
            return Err(Violation::new(why).into());
        }
        books = Books { stock: books.stock + stock, sold: books.sold + sold, supplied: books.supplied + supplied };
    }
    Ok(books)
}

fn product(n: u64) -> String {
    format!("product:{n}")
}

async fn set_up(client: &mut Client, options: &ShopOptions) -> Result<(), ClientError> {
    for n in 0..options.products {
        // A shop that is there already stays as it is: its books have to go on.
        if client.demand(&["EXISTS", &product(n)]).await? == Reply::Integer(1) {
            continue;
        }
        let (name, price, supply) = (format!("thing no. {n}"), (5 + n * 37 % 96).to_string(), SUPPLY.to_string());
        let fields = ["name", &name, "price", &price, "stock", &supply, "sold", "0", "supplied", &supply];
        let key = product(n);
        let words: Vec<&str> = ["HSET", &key].into_iter().chain(fields).collect();
        client.demand(&words).await?;
    }
    for n in 0..options.users {
        client.queue(&["HSETNX", &format!("user:{n}"), "name", &format!("customer {n}")]);
    }
    match client.replies().await?.iter().find(|reply| reply.is_error()) {
        Some(error) => Err(refused("HSETNX", error)),
        None => Ok(()),
    }
}

/// One client of the shop; each of its visits is another user's.
struct Customer {
    number: u32,
    options: ShopOptions,
    stats: Arc<ShopStats>,
    stop: Arc<AtomicBool>,
    random: fastrand::Rng,
    orders: u64,
}

/// What a purchase found in cart and shelves.
#[derive(Default)]
struct Purchase {
    pieces: BTreeMap<String, i64>,
    stocks: BTreeMap<String, i64>,
    total: i64,
}

impl Customer {
    async fn stay(mut self) {
        let pause = Duration::from_secs(1) * self.options.clients.max(1) / self.options.visits_per_second.max(1);
        let mut next = Instant::now() + pause * self.number / self.options.clients.max(1);
        while !self.stopped() {
            let Ok(mut client) = Client::connect(&self.options.address).await else {
                count(&self.stats.lost);
                tokio::time::sleep(RECONNECT_PAUSE).await;
                continue;
            };
            while !self.stopped() {
                tokio::time::sleep_until(next).await;
                // After a stall visits go on at the same rate; those missed are not made up for.
                next = (next + pause).max(Instant::now());
                match self.visit(&mut client).await {
                    Ok(()) => {}
                    Err(error) if error.broken() => {
                        count(&self.stats.lost);
                        break;
                    }
                    Err(_) => {
                        count(&self.stats.errors);
                        break;
                    }
                }
            }
        }
    }

    fn stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    /// A number below `count`, small ones far more often: some products and customers are popular.
    fn popular(&mut self, count: u64) -> u64 {
        let draw = self.random.f64();
        ((draw * draw * draw * count as f64) as u64).min(count.saturating_sub(1))
    }

    async fn visit(&mut self, client: &mut Client) -> Result<(), ClientError> {
        let user = self.popular(self.options.users);
        match self.random.u8(..100) {
            0..70 => self.browse(client, user).await,
            70..85 => self.add(client, user).await,
            _ => self.buy(client, user).await,
        }
    }

    async fn browse(&mut self, client: &mut Client, user: u64) -> Result<(), ClientError> {
        count(&self.stats.browsed);
        let user = client.demand(&["HGETALL", &format!("user:{user}")]).await?;
        for _ in 0..self.random.u8(1..=3) {
            let product = product(self.popular(self.options.products));
            client.demand(&["HMGET", &product, "name", "price", "stock"]).await?;
        }
        let fields = user.items().unwrap_or_default();
        let last = fields.as_chunks().0.iter().find(|[name, _]| name.bytes() == Some(b"last"));
        if let Some(order) = last.and_then(|[_, order]| order.bytes()) {
            client.demand(&[&b"HGETALL"[..], &[b"order:", order].concat()]).await?;
        }
        Ok(())
    }

    async fn add(&mut self, client: &mut Client, user: u64) -> Result<(), ClientError> {
        count(&self.stats.added);
        let (product, pieces) = (self.popular(self.options.products), self.random.u8(1..=3));
        let args = ["HINCRBY", &format!("cart:{user}"), &product.to_string(), &pieces.to_string()];
        client.demand(&args).await.map(|_| ())
    }

    /// Buys what is in the cart; tries again while others are in the way.
    async fn buy(&mut self, client: &mut Client, user: u64) -> Result<(), ClientError> {
        let by_txn = self.random.bool();
        for _ in 0..TRIES_MAX {
            let mut attempt = Attempt::default();
            let ended = match by_txn {
                true => self.buy_by_txn(client, &mut attempt, user).await,
                false => self.buy_by_watch(client, &mut attempt, user).await,
            };
            let lost = matches!(&ended, Err(Stopped::Client(error)) if error.broken());
            if !lost {
                clean_up(client, &mut attempt).await?;
            }
            match ended {
                Ok(Some(short)) => return self.restock(client, &short).await,
                Ok(None) => return Ok(()),
                Err(Stopped::Aborted(_)) => count(&self.stats.retries),
                Err(Stopped::Unknown(_)) => {
                    count(&self.stats.unknown);
                    return Ok(());
                }
                Err(Stopped::Client(error)) => {
                    if lost && attempt.submitted {
                        count(&self.stats.unknown);
                    }
                    return Err(error);
                }
            }
        }
        Ok(())
    }

    /// The product that is short, if there is one; then nothing was bought.
    async fn buy_by_txn(
        &mut self,
        client: &mut Client,
        attempt: &mut Attempt,
        user: u64,
    ) -> Result<Option<String>, Stopped> {
        begin(client, attempt, &["TYPE", "checkout"]).await?;
        call(client, &["TXN", "STEP", "cart"]).await?;
        let cart = call(client, &["HGETALL", &format!("cart:{user}")]).await?;
        let mut purchase = Purchase::of(&cart)?;
        if purchase.pieces.is_empty() {
            return Ok(None);
        }
        call(client, &["TXN", "STEP", "shelves"]).await?;
        for key in purchase.pieces.keys().cloned().collect::<Vec<_>>() {
            purchase.take_in(&key, &call(client, &["HMGET", &key, "stock", "price"]).await?)?;
        }
        if let Some(short) = purchase.short() {
            count(&self.stats.sold_out);
            return Ok(Some(short));
        }
        call(client, &["TXN", "STEP", "order"]).await?;
        for command in self.order(user, &purchase) {
            call(client, &command).await?;
        }
        commit(client, attempt).await?;
        count(&self.stats.bought);
        Ok(None)
    }

    async fn buy_by_watch(
        &mut self,
        client: &mut Client,
        attempt: &mut Attempt,
        user: u64,
    ) -> Result<Option<String>, Stopped> {
        let cart_key = format!("cart:{user}");
        watch(client, attempt, std::slice::from_ref(&cart_key)).await?;
        let mut purchase = Purchase::of(&call(client, &["HGETALL", &cart_key]).await?)?;
        if purchase.pieces.is_empty() {
            return Ok(None);
        }
        let keys: Vec<String> = purchase.pieces.keys().cloned().collect();
        watch(client, attempt, &keys).await?;
        for key in keys {
            purchase.take_in(&key, &call(client, &["HMGET", &key, "stock", "price"]).await?)?;
        }
        if let Some(short) = purchase.short() {
            count(&self.stats.sold_out);
            return Ok(Some(short));
        }
        let commands = self.order(user, &purchase);
        script(client, attempt, &commands).await?;
        count(&self.stats.bought);
        Ok(None)
    }

    /// The writes of a purchase.
    fn order(&mut self, user: u64, purchase: &Purchase) -> Vec<Vec<String>> {
        let order = format!("{}:{}", self.number, self.orders % ORDERS_MAX);
        self.orders += 1;
        let mut commands = Vec::new();
        for (key, pieces) in &purchase.pieces {
            commands.push(transact::command(["HINCRBY", key, "stock", &(-pieces).to_string()]));
            commands.push(transact::command(["HINCRBY", key, "sold", &pieces.to_string()]));
        }
        let (pieces, total) = (purchase.pieces.values().sum::<i64>().to_string(), purchase.total.to_string());
        let (key, user_key) = (format!("order:{order}"), format!("user:{user}"));
        let fields = ["HSET", &key, "user", &user.to_string(), "pieces", &pieces, "total", &total];
        commands.push(transact::command(fields));
        commands.push(transact::command(["HINCRBY", &user_key, "orders", "1"]));
        commands.push(transact::command(["HSET", &user_key, "last", &order]));
        commands.push(transact::command(["DEL", &format!("cart:{user}")]));
        commands
    }

    async fn restock(&mut self, client: &mut Client, key: &str) -> Result<(), ClientError> {
        let supply = |field| transact::command(["HINCRBY", key, field, &SUPPLY.to_string()]);
        match script(client, &mut Attempt::default(), &[supply("stock"), supply("supplied")]).await {
            Ok(_) => count(&self.stats.supplied),
            Err(Stopped::Client(error)) => return Err(error),
            // The next customer who finds too little tries it.
            Err(Stopped::Aborted(_) | Stopped::Unknown(_)) => {}
        }
        Ok(())
    }
}

impl Purchase {
    fn of(cart: &Reply) -> Result<Purchase, Stopped> {
        let mut purchase = Purchase::default();
        for [product, pieces] in cart.items().ok_or_else(|| refused("HGETALL", cart))?.as_chunks().0 {
            let product = product.bytes().ok_or_else(|| refused("HGETALL", cart))?;
            let key = format!("product:{}", String::from_utf8_lossy(product));
            purchase.pieces.insert(key, transact::number("HGETALL", pieces)?);
        }
        Ok(purchase)
    }

    /// Takes in stock and price of a product.
    fn take_in(&mut self, key: &str, reply: &Reply) -> Result<(), Stopped> {
        let figures = transact::numbers("HMGET", reply)?;
        let [stock, price] = figures[..] else { return Err(refused("HMGET", reply).into()) };
        self.total += price * self.pieces.get(key).copied().unwrap_or(0);
        self.stocks.insert(key.to_owned(), stock);
        Ok(())
    }

    /// A product of which there is too little.
    fn short(&self) -> Option<String> {
        let short = |(key, pieces): &(&String, &i64)| self.stocks.get(*key).is_none_or(|stock| stock < *pieces);
        self.pieces.iter().find(short).map(|(key, _)| key.clone())
    }
}

fn count(figure: &AtomicU64) {
    figure.fetch_add(1, Ordering::Relaxed);
}
