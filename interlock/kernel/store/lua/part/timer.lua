--@use clock
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

local function write_timer(record, name, due_at, version, left, fired, fixed)
  local line = string.format('%.0f %s %s %s', due_at, version, left, fired)
  redis.call('HSET', record, 't:' .. name, fixed == '' and line or line .. ' ' .. fixed)
end

-- Starts a timer anew, from now or from `start`. The timer of a paused record keeps its delay until
-- the record is resumed.
local function set_timer(record, timers, id, name, delay_ms, version, fired, paused, start)
  local due_at = (start or now_ms) + math.floor(delay_ms)
  local left = paused and string.format('%.0f', math.max(due_at - now_ms, 0)) or '-'
  write_timer(record, name, due_at, version, left, fired, start and 'fixed' or '')
  if not paused then
    redis.call('ZADD', timers, due_at, id .. ':' .. name)
  end
end

-- Returns the ms from which the delay of a timer counts, where that is not now: the record's
-- creation, or the beginning of 1970.
local function timer_start(record, since)
  if since == 'created' then
    return tonumber(redis.call('HGET', record, 'created'))
  end
  return since == 'epoch' and 0 or nil
end

-- Starts the timers of a state that is entered.
local function set_timers(record, timers, id, plans, version, paused)
  for _, timer in ipairs(plans) do
    local name, delay_ms, start = timer.name, timer.delay_ms, timer_start(record, timer.since)
    set_timer(record, timers, id, name, delay_ms, version, '0', paused, start)
  end
end
