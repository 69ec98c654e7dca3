-- What Lua itself is made into before a script runs: names that scripts do not have are taken away, functions of C
-- that may take long or too deep are bounded, and globals are protected. It runs once for each state.
local handler, as_table, pattern_bytes_max, stopped, modules = ...

local error, type, select, tostring, tonumber, rawset = error, type, select, tostring, tonumber, rawset
local string_byte = string.byte
local names = [[
    _G _VERSION assert bit cjson collectgarbage coroutine error gcinfo getmetatable ipairs load loadstring math next
    os pairs pcall rawequal rawget rawset redis select setmetatable string table tonumber tostring type unpack xpcall
]]

-- Limits are looked at between instructions. A function of C is one, so before a call that may take long they are
-- looked at too: a loop of such calls ends with one of them.
local LONG = 4096
local function looked(call, always)
    return function(what, ...)
        local kind = type(what)
        if (always or (kind == "string" or kind == "table") and #what > LONG) and stopped() then
            error("stopped", 0)
        end
        return call(what, ...)
    end
end
for _, name in ipairs({ "upper", "lower", "reverse", "rep", "find", "match", "gmatch", "gsub" }) do
    string[name] = looked(string[name])
end
table.sort, table.concat = looked(table.sort), looked(table.concat)

-- Lua 5.1 counts what is unpacked in 32 bits, and does not see that they overflow.
local unpack_all = unpack
unpack = function(list, first, last)
    if type(list) == "table" and not ((tonumber(last) or #list) - (tonumber(first) or 1) < 1000000) then
        error("too many results to unpack", 2)
    end
    return unpack_all(list, first, last)
end

-- Lua 5.1 matches by recursion, as deep as its pattern is long.
local function bounded(search, plain_at)
    return function(text, pattern, ...)
        if type(pattern) == "string" and #pattern > pattern_bytes_max and not (plain_at and select(plain_at, ...)) then
            error("pattern too long", 2)
        end
        return search(text, pattern, ...)
    end
end
string.find = bounded(string.find, 2)
string.match, string.gmatch, string.gsub = bounded(string.match), bounded(string.gmatch), bounded(string.gsub)
string.gfind = string.gmatch
string.dump = nil

-- Nothing, a billion times, takes a billion steps in which no limit is looked at.
local string_rep = string.rep
string.rep = function(text, times)
    if text == "" then
        return ""
    end
    return string_rep(text, times)
end

-- The same of a table that is shifted from a position which it has not.
local insert = table.insert
table.insert = function(list, ...)
    if select("#", ...) == 2 then
        local at = tonumber((...))
        if at and not (at >= 0 and at < 2147483647) then
            error("bad argument #2 to 'insert' (position out of bounds)", 2)
        end
    end
    return insert(list, ...)
end

-- Bytes that claim to be compiled Lua are run unchecked by it.
local load_text = loadstring
loadstring = function(text, name)
    if type(text) == "string" and string_byte(text, 1) == 27 then
        return nil, "attempt to load a binary chunk"
    end
    return load_text(text, name or text)
end
load = function(pieces, name)
    local text = ""
    while true do
        local piece = pieces()
        if piece == nil or piece == "" then
            return loadstring(text, name or "=(load)")
        end
        text = text .. piece
    end
end

-- A script that is to stop does not go on in what its error is caught by. The error of a command is a table with the
-- field err, of which pcall shows that field, as in Redis. A handler is called when the error has left, since no limit
-- is looked at before.
local catch, catch_at_once = pcall, xpcall
local function passed(ok, reason, ...)
    if ok then
        return ok, reason, ...
    end
    if stopped() then
        error("stopped", 0)
    end
    return false, as_table(reason)
end
local function as_text(ok, reason, ...)
    if not ok and type(reason) == "table" and type(reason.err) == "string" then
        return false, reason.err
    end
    return ok, reason, ...
end
pcall = function(...)
    return as_text(passed(catch(...)))
end
xpcall = function(call, describe)
    local function described(ok, ...)
        if ok then
            return ok, ...
        end
        return false, describe(...)
    end
    return described(passed(catch(call)))
end
local resume = coroutine.resume
coroutine.resume = function(...)
    return passed(resume(...))
end

local kept = {}
for name in names:gmatch("%S+") do
    kept[name] = true
end
local drop = {}
for name in pairs(_G) do
    if not kept[name] then
        drop[#drop + 1] = name
    end
end
for _, name in ipairs(drop) do
    _G[name] = nil
end
KEYS, ARGV = {}, {}
setmetatable(_G, {
    -- Few scripts use a module, and to make one takes longer than many scripts run.
    __index = function(globals, name)
        if modules[name] then
            local made = modules[name]()
            if name == "cjson" then
                made.encode, made.decode = looked(made.encode, true), looked(made.decode, true)
            end
            rawset(globals, name, made)
            return made
        end
        error("Script attempted to access nonexistent global variable '" .. tostring(name) .. "'", 2)
    end,
    __newindex = function()
        error("Attempt to modify a readonly table", 2)
    end,
    __metatable = false,
})

return function(script)
    return catch_at_once(script, handler)
end
