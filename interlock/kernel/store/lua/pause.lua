--@use clock entry ops timer record_note
-- Pauses a record: its owed effects leave the index, its timers keep the time that they have left.
-- A holder may finish: its next renewal says `pause`, and what its outcome owes waits.
-- KEYS     record, log, ops, op_times, effects, timers
-- ARGV     id, op_id, digest, detail*, window_ms
-- Returns  {status}: paused | already | ended | missing | replayed | reused
local version, ended, paused = unpack(redis.call('HMGET', record, 'version', 'ended', 'paused'))
if not version then
  return {'missing'}
end
local known = known_outcome(ops, plan.op_id, plan.digest)
if known then
  return {known}
end
if ended == '1' then
  return {'ended'}
end
if paused == '1' then
  return {'already'}
end

redis.call('HSET', record, 'paused', '1')
local fields = redis.call('HKEYS', record)
for _, suffix in ipairs(entry_suffixes(record, fields)) do
  if read_entry(record, suffix).state == 'owed' then
    redis.call('ZREM', effects, plan.id .. ':' .. suffix)
  end
end
for _, field in ipairs(fields) do
  local name = string.match(field, '^t:(.*)$')
  if name then
    local due_at, timer_version, _, fired, fixed = read_timer(record, name)
    local left = string.format('%.0f', math.max(tonumber(due_at) - now_ms, 0))
    write_timer(record, name, due_at, timer_version, left, fired, fixed)
    redis.call('ZREM', timers, plan.id .. ':' .. name)
  end
end
write_note(log, version, 'pause', plan.detail)
record_outcome(ops, op_times, plan.op_id, plan.digest, version, plan.window_ms)
return {'paused'}
