-- Owe an effect: an entry, its place in the index, its message. A paused record's effects are born off the index.
local function owe(record, effects, id, suffix, owed, paused, look_ms, queue, message)
  local entry = {name = owed.name, kind = owed.kind, state = 'owed', attempts = 0, attempts_max = owed.max, once = owed.once, grace = owed.grace, looks = 0, fires = owed.fires, exclusive = owed.exclusive,
    countdown = owed.countdown, reserved = 0, not_before = 0, lease_until = 0, kill_by = 0, releases = 0, begun = 0, carried = 0, posted = 0, acked = 0}
  entry_write(record, suffix, entry)
  if paused then return false end
  redis.call('ZADD', effects, whole(now + look_ms), id .. ':' .. suffix)
  if queue and message then redis.call('LPUSH', queue, message) end
  return true
end
