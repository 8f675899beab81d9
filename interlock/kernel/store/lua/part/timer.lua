--@use clock
-- A timer is field 't:<name>' of its record: '<due at> <version> <left> <fired>'. The version is
-- the one at which the record set the timer, `left` is '-' or, while the record is paused, the ms
-- that remain, and `fired` is how often the timer has fired.
local function read_timer(record, name)
  local line = redis.call('HGET', record, 't:' .. name)
  if not line then
    return nil
  end
  return string.match(line, '^(%S+) (%S+) (%S+) (%S+)$')
end

-- Starts a timer anew. The timer of a paused record keeps its delay until the record is resumed.
local function set_timer(record, timers, id, name, delay_ms, version, fired, paused)
  local whole_ms = math.floor(delay_ms)
  local due_at = now_ms + whole_ms
  local left = paused and whole_ms or '-'
  local line = due_at .. ' ' .. version .. ' ' .. left .. ' ' .. fired
  redis.call('HSET', record, 't:' .. name, line)
  if not paused then
    redis.call('ZADD', timers, due_at, id .. ':' .. name)
  end
end
