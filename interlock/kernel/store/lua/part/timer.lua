--@use clock fields
-- A timer is field 't:<name>' of its record: '<due at> <version> <left> <fired>'. The version is
-- the one at which the record set the timer, `left` is '-' or, while the record is paused, the ms
-- that remain, and `fired` is how often the timer has fired. Where it is due at a fixed time, which
-- neither a pause nor the setting of the clock moves, ' fixed' follows.
local function read_timer(record, name)
  local line = redis.call('HGET', record, 't:' .. name)
  if not line then
    return nil
  end
  return string.match(line, '^(%S+) (%S+) (%S+) (%S+) ?(%S*)$')
end

local function timer_line(due_at, version, left, fired, fixed)
  local line = string.format('%d %s %s %s', due_at, version, left, fired)
  return fixed == '' and line or line .. ' ' .. fixed
end

local function write_timer(record, name, ...)
  redis.call('HSET', record, 't:' .. name, timer_line(...))
end

-- Starts a timer, from now or from `start`, and returns its line. The timer of a paused record
-- keeps its delay until the record is resumed.
local function start_timer(timers, id, name, delay_ms, version, fired, paused, start)
  local due_at = (start or now_ms) + math.floor(delay_ms)
  local left = paused and string.format('%d', math.max(due_at - now_ms, 0)) or '-'
  if not paused then
    redis.call('ZADD', timers, string.format('%d', due_at), id .. ':' .. name)
  end
  return timer_line(due_at, version, left, fired, start and 'fixed' or '')
end

-- Starts a timer anew.
local function set_timer(record, timers, id, name, ...)
  redis.call('HSET', record, 't:' .. name, start_timer(timers, id, name, ...))
end

-- Returns the ms from which the delay of a timer counts, where that is not now: the record's
-- creation, or the beginning of 1970.
local function timer_start(owner, since)
  if since == 'created' then
    return tonumber(owner.created)
  end
  return since == 'epoch' and 0 or nil
end

-- Starts the timers of a state that is entered: puts their lines into `owner.fields`.
-- plans = for each timer its name, its delay in ms, and since when that counts, one after the other
local function set_timers(owner, plans, version)
  for n = 1, #plans, 3 do
    local name, delay_ms, since = unpack(plans, n, n + 2)
    local timers, id, start = owner.timers, owner.id, timer_start(owner, since)
    local line = start_timer(timers, id, name, delay_ms, version, '0', owner.paused, start)
    put(owner.fields, 't:' .. name, line)
  end
end
