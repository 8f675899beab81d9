--@use clock entry ops timer record_note
-- Resumes a paused record: its owed effects are due now, its timers go on with what they had left,
-- but those that are due at a fixed time.
-- KEYS     record, log, ops, times of ops, effects, timers
-- ARGV     id, op-id, digest, detail of the note, window of op-ids in ms
-- Returns  {status, suffix, name, ...}, two values for each effect that should be published;
--          status: resumed | already | missing | replayed | reused
local record = KEYS[1]
local log = KEYS[2]
local ops = KEYS[3]
local op_times = KEYS[4]
local effects = KEYS[5]
local timers = KEYS[6]
local id = ARGV[1]
local op_id = ARGV[2]
local digest = ARGV[3]
local detail = ARGV[4]
local window_ms = tonumber(ARGV[5])

local version, paused = unpack(redis.call('HMGET', record, 'version', 'paused'))
if not version then
  return {'missing'}
end
local known = known_outcome(ops, op_id, digest)
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
    redis.call('ZADD', effects, now, id .. ':' .. suffix)
    answer[#answer + 1] = suffix
    answer[#answer + 1] = entry.name
  end
end
for _, field in ipairs(fields) do
  local name = string.match(field, '^t:(.*)$')
  if name then
    local due_at, timer_version, left, fired, fixed = read_timer(record, name)
    if fixed == '' then
      set_timer(record, timers, id, name, tonumber(left), timer_version, fired, false)
    else
      set_timer(record, timers, id, name, tonumber(due_at), timer_version, fired, false, 0)
    end
  end
end
write_note(log, version, 'resume', detail)
record_outcome(ops, op_times, op_id, digest, version, window_ms)
return answer
