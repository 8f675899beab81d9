--@use clock entry exclusive budget drop quarantine holds_and_queues metrics
-- Gives an effect back: at shutdown (not counted), or for another attempt later (counted). One that
-- may not start again is lapsed at once. An effect that needs names which another record holds
-- waits for them: it is polled when its turn has come, at the latest after the delay. Its attempt
-- does not count. Where a person has to remove something first, such as changes that are in the way
-- of a merge, the record asks for that until the effect is claimed again. The effect is tried again
-- after the delay, whether the person has answered or not.
-- KEYS     record, effects, waits, timers, holds, hold queue, metrics, chain of counters
-- ARGV     id, suffix, token, delay in ms, '1' if the attempt counts, how many releases may be
--          uncounted, names that it needs, '1' if it asks a person, '1' if it was the last attempt
-- Returns  {status}: owed | lapsed | gone | lost
local record = KEYS[1]
local effects = KEYS[2]
local waits = KEYS[3]
local timers = KEYS[4]
local holds = KEYS[5]
local hold_queue = KEYS[6]
local metrics = KEYS[7]
local chain = {unpack(KEYS, 8)}
local id = ARGV[1]
local suffix = ARGV[2]
local token = ARGV[3]
local delay_ms = tonumber(ARGV[4])
local counted = ARGV[5] == '1'
local releases_max = tonumber(ARGV[6])
local names = cjson.decode(ARGV[7])
local asks = ARGV[8] == '1'
local is_last = ARGV[9] == '1'
local member = id .. ':' .. suffix

local entry = read_entry(record, suffix)
if not entry or entry.token ~= token then
  return {'lost'}
end
if entry.state == 'draining' then
  local owner = {id = id, record = record, effects = effects, chain = chain}
  drop(owner, suffix, entry, false)
  count(metrics, 'run', entry.name, 'stopped')
  return {'gone'}
end

count(metrics, 'run', entry.name, counted and 'failed' or 'released')
release_reservation(chain, entry)
local due_at = now_ms + delay_ms
local asked = asks_person(entry)
-- The holder has left the place that exclusive effects share, so it is free at once.
entry.kill_by = now_ms
if entry.no_restart == 1 then
  entry.state = 'lapsed'
  entry.lease_until = now_ms
  due_at = now_ms
else
  if #names > 0 then
    local _, name = other_holder(holds, hold_queue, names, id)
    if name then
      wait_for_name(hold_queue, member, name)
    else
      due_at = now_ms
    end
    entry.attempts = entry.attempts - 1
  elseif not counted and entry.releases < releases_max then
    entry.attempts = entry.attempts - 1
    entry.releases = entry.releases + 1
  end
  if is_last then
    entry.attempts_max = entry.attempts
  end
  entry.state = 'owed'
  entry.token = '-'
  entry.holder = asks and PERSON or '-'
  entry.not_before = #names > 0 and now_ms or due_at
  entry.polls = 0
end
write_entry(record, suffix, entry)
if asked then
  stop_asking(record, waits, timers, id)
end
if asks_person(entry) then
  redis.call('ZADD', waits, 'NX', now, id)
end
wake_siblings(record, effects, id, entry)
-- After its siblings, which it is one of: an effect that waits for a name is not due yet.
if entry.state == 'owed' and redis.call('HGET', record, 'paused') == '1' then
  redis.call('ZREM', effects, member)
else
  redis.call('ZADD', effects, due_at, member)
end
return {entry.state}
