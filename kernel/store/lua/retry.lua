--@use clock entry ops record_note quarantine
-- Lets every quarantined effect of a record try again with fresh attempts, as a person has decided.
-- The person may name the proposal that was seen: it says how many effects are quarantined, and
-- until when the last holder of the latest could be at work. An old token stays good until the
-- effect is claimed.
-- KEYS     record, log, ops, times of ops, effects, timers, waits
-- ARGV     id, op-id, digest, detail of the note, window of op-ids in ms, proposal or ''
-- Returns  {status, suffix, name, ...}, two values for each effect that should be published;
--          status: retried | nothing | stale | missing | replayed | reused
local record = KEYS[1]
local log = KEYS[2]
local ops = KEYS[3]
local op_times = KEYS[4]
local effects = KEYS[5]
local timers = KEYS[6]
local waits = KEYS[7]
local id = ARGV[1]
local op_id = ARGV[2]
local digest = ARGV[3]
local detail = ARGV[4]
local window_ms = tonumber(ARGV[5])
local proposal = ARGV[6]

local version = redis.call('HGET', record, 'version')
if not version then
  return {'missing'}
end
local known = known_outcome(ops, op_id, digest)
if known then
  return {known}
end
local quarantined = {}
local latest = 0
for _, suffix in ipairs(entry_suffixes(record)) do
  local entry = read_entry(record, suffix)
  if entry.state == 'quarantined' then
    quarantined[#quarantined + 1] = {suffix = suffix, entry = entry}
    latest = math.max(latest, entry.kill_by)
  end
end
if proposal ~= '' and proposal ~= string.format('%d.%.0f', #quarantined, latest) then
  return {'stale'}
end
if #quarantined == 0 then
  return {'nothing'}
end

local answer = {'retried'}
for _, found in ipairs(quarantined) do
  local entry = found.entry
  entry.state = 'lapsed'
  entry.attempts = 0
  entry.polls = 0
  entry.not_before = 0
  write_entry(record, found.suffix, entry)
  redis.call('ZADD', effects, now_ms, id .. ':' .. found.suffix)
  answer[#answer + 1] = found.suffix
  answer[#answer + 1] = entry.name
end
end_quarantine(record, waits, timers, id)
write_note(log, version, 'retry', detail)
record_outcome(ops, op_times, op_id, digest, version, window_ms)
return answer
