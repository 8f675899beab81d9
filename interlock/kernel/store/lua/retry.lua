--@use clock entry ops record_note quarantine
-- Lets effects of a record try again at once with fresh attempts, as a person has decided: those
-- that are quarantined, those that wait for a person who is in their way, and those that have
-- failed and wait for their next attempt. Of a paused record only quarantined ones. Each gets the
-- `attempts_max` of its name, since losses have raised its own, or a last attempt has lowered it;
-- one of a name that is not there keeps its own. The person may name the proposal that was seen
-- (Record.retry_proposal builds the same text): how many effects are quarantined, when the last
-- holder of the latest of them has surely stopped, and when the latest that waits for the person
-- was given back. Where no effect asks a person it is ''.
-- An old token stays good until the effect is claimed.
-- KEYS     record, log, ops, op_times, effects, timers, waits
-- ARGV     id, op_id, digest, detail*, window_ms, proposal, attempts_max
-- Returns  {status, suffix, name, ...}, two values for each effect that should be published;
--          status: retried | nothing | stale | missing | replayed | reused
local version, paused = unpack(redis.call('HMGET', record, 'version', 'paused'))
if not version then
  return {'missing'}
end
local known = known_outcome(ops, plan.op_id, plan.digest)
if known then
  return {known}
end
local waiting = {}
local quarantined = 0
local stopped_by = 0
local given_back_at = 0
for _, suffix in ipairs(entry_suffixes(record)) do
  local entry = read_entry(record, suffix)
  if entry.state == 'quarantined' then
    quarantined = quarantined + 1
    stopped_by = math.max(stopped_by, entry.kill_by)
    entry.state = 'lapsed'
    waiting[#waiting + 1] = {suffix = suffix, entry = entry}
  elseif
    entry.state == 'owed'
    and paused ~= '1'
    and (asks_person(entry) or now_ms < entry.not_before)
  then
    if asks_person(entry) then
      given_back_at = math.max(given_back_at, entry.kill_by)
    end
    entry.holder = '-'
    waiting[#waiting + 1] = {suffix = suffix, entry = entry}
  end
end
local current = ''
if quarantined > 0 or given_back_at > 0 then
  local form = '%s:retry:%d.%.0f.%.0f'
  current = string.format(form, plan.id, quarantined, stopped_by, given_back_at)
end
if plan.proposal ~= '' and plan.proposal ~= current then
  return {'stale'}
end
if #waiting == 0 then
  return {'nothing'}
end

local answer = {'retried'}
for _, found in ipairs(waiting) do
  local entry = found.entry
  entry.attempts = 0
  entry.attempts_max = plan.attempts_max[entry.name] or entry.attempts_max
  entry.polls = 0
  entry.not_before = 0
  write_entry(record, found.suffix, entry)
  redis.call('ZADD', effects, now, plan.id .. ':' .. found.suffix)
  answer[#answer + 1] = found.suffix
  answer[#answer + 1] = entry.name
end
stop_asking(record, waits, timers, plan.id)
write_note(log, version, 'retry', plan.detail)
record_outcome(ops, op_times, plan.op_id, plan.digest, version, plan.window_ms)
return answer
