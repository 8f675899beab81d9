--@use clock entry exclusive budget
-- Gives an effect back: at shutdown (not counted) or for another attempt later (counted). What may not restart becomes lapsed at once.
-- KEYS  record, effects, waits, timers, chain of counters...
-- ARGV  id, suffix, token, delay ms, counted ('1'), releases allowed
-- Returns {word}
local record, suffix, member = KEYS[1], ARGV[2], ARGV[1] .. ':' .. ARGV[2]
local entry = entry_read(record, suffix)
if not entry or entry.token ~= ARGV[3] or entry.state == 'owed' then return {'lost'} end
local chain = {}
for n = 5, #KEYS do chain[n - 4] = KEYS[n] end
unreserve(chain, entry, false)
if entry.state == 'draining' then
  redis.call('HDEL', record, 'e:' .. suffix)
  redis.call('ZREM', KEYS[2], member)
  wake_siblings(record, KEYS[2], ARGV[1], entry)
  return {'gone'}
end
local at, was = now + tonumber(ARGV[4]), entry.state
if entry.carried == 1 then
  entry.state, entry.lease_until, entry.kill_by, at = 'lapsed', now, now, now
else
  if ARGV[5] ~= '1' and entry.releases < tonumber(ARGV[6]) then
    entry.attempts, entry.releases = entry.attempts - 1, entry.releases + 1
  end
  entry.state, entry.token, entry.holder, entry.not_before, entry.looks, entry.kill_by = 'owed', '', '', at, 0, now
end
entry_write(record, suffix, entry)
if was == 'quarantined' then unquarantine(record, KEYS[3], KEYS[4], ARGV[1]) end
if redis.call('HGET', record, 'paused') == '1' and entry.state == 'owed' then redis.call('ZREM', KEYS[2], member)
else redis.call('ZADD', KEYS[2], whole(at), member) end
wake_siblings(record, KEYS[2], ARGV[1], entry)
return {entry.state}
