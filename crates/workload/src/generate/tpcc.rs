//! TPC-C in key-value form: five types, with secondary tables where SQL would look something up.

use std::collections::VecDeque;

use fastrand::Rng;

use super::draw::weighted;
use super::{Generate, Options, Transaction, TransactionType, Workload, key};

const WAREHOUSE: u64 = 1;
const DISTRICT: u64 = 2;
const CUSTOMER: u64 = 3;
const HISTORY: u64 = 4;
const ORDER: u64 = 5;
const NEW_ORDER: u64 = 6;
const ORDER_LINE: u64 = 7;
const ITEM: u64 = 8;
const STOCK: u64 = 9;
/// Customer -> its last order.
const ORDER_BY_CUSTOMER: u64 = 10;
/// Last name -> customers.
const CUSTOMER_BY_NAME: u64 = 11;
/// District -> its oldest order that is not delivered.
const EARLIEST_NEW_ORDER: u64 = 12;

const DISTRICTS: u64 = 10;
const CUSTOMERS: u64 = 3000;
const ITEMS: u64 = 100_000;
const NAMES: u64 = 1000;
/// Lines of an order take so many numbers.
const LINES_MAX: u64 = 16;
/// Orders of a district that are remembered; StockLevel looks at the last 20.
const ORDERS_KEPT: usize = 3000;
const STOCK_ORDERS: usize = 20;

const fn workload(
    name: &'static str,
    summary: &'static str,
    types: fn(u64) -> Vec<TransactionType>,
    new: fn(&Options) -> Box<dyn Generate>,
) -> Workload {
    Workload { name, summary, scale_unit: "warehouses", defaults: (200_000, 10), types, new }
}

pub(super) static TPCC: Workload = workload(
    "tpcc",
    "TPC-C: five types, up to 30 levels; items and stock one after the other",
    |_| types(false),
    |options| Box::new(TpcC::new(options, false)),
);

pub(super) static TPCC_BATCHED: Workload = workload(
    "tpcc-batched",
    "TPC-C whose NewOrder asks for all items and stock at once",
    |_| types(true),
    |options| Box::new(TpcC::new(options, true)),
);

/// Payment, NewOrder, Delivery, OrderStatus, StockLevel.
const MIX: [f64; 5] = [44.0, 45.0, 4.0, 4.0, 3.0];

/// NewOrder and Delivery are loops: they go by levels.
fn types(batched: bool) -> Vec<TransactionType> {
    let with = TransactionType::with;
    let new_order = match batched {
        false => TransactionType::flat("NewOrder"),
        true => with(
            "NewOrder",
            &["W", "D", "C", "w:head", "I+S", "w:lines"],
            &["W>head", "D>head", "C>head", "head>I+S", "I+S>lines"],
        ),
    };
    vec![
        with("Payment", &["W", "D", "CBN", "C", "w:W,D,C,H"], &["W>CBN", "D>CBN", "CBN>C", "W>C", "D>C", "C>W,D,C,H"]),
        new_order,
        TransactionType::flat("Delivery"),
        with("OrderStatus", &["CBN", "OBC", "O", "OL", "C"], &["CBN>OBC", "OBC>O", "OBC>OL", "OBC>C"]),
        with("StockLevel", &["D", "O", "OL", "S"], &["D>O", "O>OL", "OL>S"]),
    ]
}

#[derive(Clone, Default)]
struct Order {
    number: u64,
    customer: u64,
    items: Vec<u64>,
}

#[derive(Default)]
struct District {
    next_order: u64,
    orders: VecDeque<Order>,
    undelivered: VecDeque<u64>,
}

struct TpcC {
    rng: Rng,
    warehouses: u64,
    batched: bool,
    districts: Vec<District>,
    /// NURand's constants.
    c: [u64; 3],
}

impl TpcC {
    fn new(options: &Options, batched: bool) -> TpcC {
        let mut rng = Rng::with_seed(options.seed);
        let warehouses = options.scale.clamp(1, 10_000);
        let c = [rng.u64(0..256), rng.u64(0..1024), rng.u64(0..8192)];
        let mut districts = Vec::new();
        districts.resize_with((warehouses * DISTRICTS) as usize, District::default);
        TpcC { rng, warehouses, batched, districts, c }
    }

    /// NURand(A, 0, n - 1) of the standard; the mix of two uniform numbers makes some rows hot.
    fn skewed(&mut self, a: u64, c: u64, n: u64) -> u64 {
        ((self.rng.u64(0..=a) | self.rng.u64(0..n)) + c) % n
    }

    fn customer(&mut self, district: u64) -> u64 {
        district * CUSTOMERS + self.skewed(512, self.c[1], CUSTOMERS)
    }

    fn name(&mut self, district: u64) -> u64 {
        district * NAMES + self.skewed(128, self.c[0], NAMES)
    }

    /// A row of the lines of an order.
    fn line(district: u64, order: u64, line: u64) -> u64 {
        ((district << 22 | order & 0x3f_ffff) * LINES_MAX) + line
    }

    fn order(district: u64, order: u64) -> u64 {
        district << 22 | order & 0x3f_ffff
    }

    fn new_order(&mut self, t: &mut Transaction, district: u64) {
        let customer = self.customer(district);
        let number = self.districts[district as usize].next_order;
        let vertex = |v: u16| if self.batched { v } else { 0 };
        t.read(0, vertex(1), key(WAREHOUSE, district / DISTRICTS));
        t.read(0, vertex(2), key(DISTRICT, district));
        t.read(0, vertex(3), key(CUSTOMER, customer));
        for (table, row) in [
            (DISTRICT, district),
            (NEW_ORDER, TpcC::order(district, number)),
            (ORDER_BY_CUSTOMER, customer),
            (ORDER, TpcC::order(district, number)),
        ] {
            t.write(1, vertex(4), key(table, row));
        }
        let (count, mut items) = (self.rng.usize(5..=15), Vec::new());
        let home = district / DISTRICTS;
        let mut level = 2;
        for line in 0..count as u64 {
            let item = self.skewed(4096, self.c[2], ITEMS);
            let supply =
                if self.warehouses > 1 && self.rng.u32(0..100) == 0 { self.rng.u64(0..self.warehouses) } else { home };
            let (item_key, stock) = (key(ITEM, item), key(STOCK, supply * ITEMS + item));
            if self.batched {
                t.read(2, 5, item_key);
                t.read(2, 5, stock);
            } else {
                t.read(level, 0, item_key);
                t.read(level + 1, 0, stock);
                t.write(level + 2, 0, stock);
                t.write(level + 2, 0, key(ORDER_LINE, TpcC::line(district, number, line)));
                level += 3;
            }
            items.push(supply * ITEMS + item);
        }
        if self.batched {
            for (line, &stock) in items.iter().enumerate() {
                t.write(3, 6, key(STOCK, stock));
                t.write(3, 6, key(ORDER_LINE, TpcC::line(district, number, line as u64)));
            }
        }
        let of_district = &mut self.districts[district as usize];
        of_district.next_order += 1;
        of_district.undelivered.push_back(number);
        of_district.orders.push_back(Order { number, customer, items });
        if of_district.orders.len() > ORDERS_KEPT {
            of_district.orders.pop_front();
        }
    }

    fn payment(&mut self, t: &mut Transaction, district: u64) {
        t.read(0, 1, key(WAREHOUSE, district / DISTRICTS));
        t.read(0, 2, key(DISTRICT, district));
        let mut level = 1;
        // 15 % pay at another warehouse's counter, 60 % are known by name.
        let home = match self.rng.u32(0..100) < 15 {
            true => self.rng.u64(0..self.warehouses * DISTRICTS),
            false => district,
        };
        let customer = self.customer(home);
        if self.rng.u32(0..100) < 60 {
            t.read(level, 3, key(CUSTOMER_BY_NAME, self.name(home)));
            level += 1;
        }
        t.read(level, 4, key(CUSTOMER, customer));
        for row in [
            key(WAREHOUSE, district / DISTRICTS),
            key(DISTRICT, district),
            key(CUSTOMER, customer),
            key(HISTORY, self.rng.u64(0..1 << 39)),
        ] {
            t.write(level + 1, 5, row);
        }
    }

    fn delivery(&mut self, t: &mut Transaction, warehouse: u64) {
        for district in warehouse * DISTRICTS..(warehouse + 1) * DISTRICTS {
            let of_district = &mut self.districts[district as usize];
            let Some(number) = of_district.undelivered.pop_front() else { continue };
            let order = of_district.orders.iter().find(|order| order.number == number).cloned().unwrap_or_default();
            let level = t.asks.last().map_or(0, |ask| ask.level + 1);
            t.read(level, 0, key(EARLIEST_NEW_ORDER, district));
            t.read(level + 1, 0, key(NEW_ORDER, TpcC::order(district, number)));
            t.write(level + 2, 0, key(EARLIEST_NEW_ORDER, district));
            t.write(level + 2, 0, key(NEW_ORDER, TpcC::order(district, number)));
            t.read(level + 3, 0, key(ORDER, TpcC::order(district, number)));
            for line in 0..order.items.len() as u64 {
                t.read(level + 4, 0, key(ORDER_LINE, TpcC::line(district, number, line)));
            }
            t.read(level + 5, 0, key(CUSTOMER, order.customer));
            t.write(level + 6, 0, key(CUSTOMER, order.customer));
        }
        if t.asks.is_empty() {
            t.read(0, 0, key(EARLIEST_NEW_ORDER, warehouse * DISTRICTS));
        }
    }

    fn order_status(&mut self, t: &mut Transaction, district: u64) {
        let mut level = 0;
        if self.rng.u32(0..100) < 60 {
            t.read(0, 1, key(CUSTOMER_BY_NAME, self.name(district)));
            level = 1;
        }
        let of_district = &self.districts[district as usize];
        // Somebody who has ordered, if anybody has.
        let order = match of_district.orders.len() {
            0 => Order { customer: district * CUSTOMERS, ..Order::default() },
            orders => of_district.orders[self.rng.usize(0..orders)].clone(),
        };
        t.read(level, 2, key(ORDER_BY_CUSTOMER, order.customer));
        t.read(level + 1, 3, key(ORDER, TpcC::order(district, order.number)));
        for line in 0..order.items.len() as u64 {
            t.read(level + 1, 4, key(ORDER_LINE, TpcC::line(district, order.number, line)));
        }
        t.read(level + 1, 5, key(CUSTOMER, order.customer));
    }

    fn stock_level(&mut self, t: &mut Transaction, district: u64) {
        t.read(0, 1, key(DISTRICT, district));
        let orders = self.districts[district as usize].orders.iter().rev().take(STOCK_ORDERS);
        let mut stock = Vec::new();
        let mut lines = Vec::new();
        for order in orders {
            t.read(1, 2, key(ORDER, TpcC::order(district, order.number)));
            lines.extend((0..order.items.len() as u64).map(|line| TpcC::line(district, order.number, line)));
            stock.extend_from_slice(&order.items);
        }
        lines.into_iter().for_each(|line| t.read(2, 3, key(ORDER_LINE, line)));
        stock.sort_unstable();
        stock.dedup();
        stock.into_iter().for_each(|row| t.read(3, 4, key(STOCK, row)));
    }
}

impl Generate for TpcC {
    fn next(&mut self, transaction: &mut Transaction) {
        let of_type = weighted(&mut self.rng, &MIX);
        transaction.begin(of_type as u16 + 1);
        let district = self.rng.u64(0..self.warehouses * DISTRICTS);
        match of_type {
            0 => self.payment(transaction, district),
            1 => self.new_order(transaction, district),
            2 => self.delivery(transaction, district / DISTRICTS),
            3 => self.order_status(transaction, district),
            _ => self.stock_level(transaction, district),
        }
    }
}
