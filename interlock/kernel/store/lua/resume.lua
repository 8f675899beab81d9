--@use clock entry ops timer record_note
-- Resumes a paused record: its owed effects are due now, its timers go on with what they had left,
-- but those that are due at a fixed time.
-- KEYS     record, log, ops, op_times, effects, timers
-- ARGV     id, op_id, digest, detail*, window_ms
-- Returns  {status, suffix, name, ...}, two values for each effect that should be published;
--          status: resumed | already | missing | replayed | reused
local version, paused = unpack(redis.call('HMGET', record, 'version', 'paused'))
if not version then
  return {'missing'}
end
local known = known_outcome(ops, plan.op_id, plan.digest)
if known then
  return {known}
end
if paused ~= '1' then
  return {'already'}
end

redis.call('HSET', record, 'paused', '')
local answer = {'resumed'}
local fields = redis.call('HKEYS', record)
for _, suffix in ipairs(entry_suffixes(record, fields)) do
  local entry = read_entry(record, suffix)
  if entry.state == 'owed' then
    redis.call('ZADD', effects, now, plan.id .. ':' .. suffix)
    answer[#answer + 1] = suffix
    answer[#answer + 1] = entry.name
  end
end
for _, field in ipairs(fields) do
  local name = string.match(field, '^t:(.*)$')
  if name then
    local due_at, timer_version, left, fired, fixed = read_timer(record, name)
    if fixed == '' then
      set_timer(record, timers, plan.id, name, tonumber(left), timer_version, fired, false)
    else
      set_timer(record, timers, plan.id, name, tonumber(due_at), timer_version, fired, false, 0)
    end
  end
end
write_note(log, version, 'resume', plan.detail)
record_outcome(ops, op_times, plan.op_id, plan.digest, version, plan.window_ms)
return answer
