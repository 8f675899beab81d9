-- A timer: field 't:<name>' = '<due_at> <born> <left> <fired>'; left is '-' while it runs, ms while its record is paused.
local function set_timer(record, timers, id, name, delay_ms, born, fired, paused)
  local due_at = whole(now + delay_ms)
  redis.call('HSET', record, 't:' .. name, due_at .. ' ' .. born .. ' ' .. (paused and whole(delay_ms) or '-') .. ' ' .. fired)
  if not paused then redis.call('ZADD', timers, due_at, id .. ':' .. name) end
end
