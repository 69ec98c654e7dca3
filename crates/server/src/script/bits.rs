//! `bit`: operations on 32 bits, as Redis' module of that name has them. Numbers come back with their sign.

use mlua::{Lua, Table, Variadic};

/// A number of Lua as 32 bits: what is larger wraps around.
fn bits(number: f64) -> i32 {
    // 2^52 + 2^51: what is added to it leaves its integer part in the low bits.
    (number + 6_755_399_441_055_744.0).to_bits() as u32 as i32
}

fn folded(lua: &Lua, fold: fn(i32, i32) -> i32) -> mlua::Result<mlua::Function> {
    lua.create_function(move |_, (first, more): (f64, Variadic<f64>)| {
        Ok(f64::from(more.iter().fold(bits(first), |so_far, number| fold(so_far, bits(*number)))))
    })
}

fn shifted(lua: &Lua, shift: fn(i32, u32) -> i32) -> mlua::Result<mlua::Function> {
    lua.create_function(move |_, (number, by): (f64, f64)| Ok(f64::from(shift(bits(number), bits(by) as u32 & 31))))
}

/// `bit.tohex`: so many digits, in capitals if the number is negative.
fn hex(_: &Lua, (number, digits): (f64, Option<f64>)) -> mlua::Result<String> {
    let digits = digits.map_or(8, bits);
    let width = digits.unsigned_abs().min(8) as usize;
    let shown = format!("{:08x}", bits(number));
    let shown = &shown[8 - width..];
    Ok(if digits < 0 { shown.to_ascii_uppercase() } else { shown.to_owned() })
}

/// The module.
pub(super) fn module(lua: &Lua) -> mlua::Result<Table> {
    let module = lua.create_table()?;
    module.raw_set("tobit", lua.create_function(|_, number: f64| Ok(f64::from(bits(number))))?)?;
    module.raw_set("bnot", lua.create_function(|_, number: f64| Ok(f64::from(!bits(number))))?)?;
    module.raw_set("bswap", lua.create_function(|_, number: f64| Ok(f64::from(bits(number).swap_bytes())))?)?;
    module.raw_set("band", folded(lua, |a, b| a & b)?)?;
    module.raw_set("bor", folded(lua, |a, b| a | b)?)?;
    module.raw_set("bxor", folded(lua, |a, b| a ^ b)?)?;
    module.raw_set("lshift", shifted(lua, |number, by| number << by)?)?;
    module.raw_set("rshift", shifted(lua, |number, by| (number as u32 >> by) as i32)?)?;
    module.raw_set("arshift", shifted(lua, |number, by| number >> by)?)?;
    module.raw_set("rol", shifted(lua, |number, by| number.rotate_left(by))?)?;
    module.raw_set("ror", shifted(lua, |number, by| number.rotate_right(by))?)?;
    module.raw_set("tohex", lua.create_function(hex)?)?;
    Ok(module)
}
