-- Subscribes to the end of a record, or answers that it has ended. Both are one step with the end
-- itself: either the end sees the subscriber, or the subscriber sees the end.
-- A record that does not exist yet may be subscribed to ahead, for some time.
-- KEYS     record, its subscribers, its tombstone
-- ARGV     subscriber, for how long it is kept for a record that does not exist in ms, '0' is not
-- Returns  {status, state}; status: subscribed | ended | missing | pruned
local record = KEYS[1]
local subscribers = KEYS[2]
local tombstone = KEYS[3]
local subscriber = ARGV[1]
local ahead_ms = ARGV[2]

local ended, state = unpack(redis.call('HMGET', record, 'ended', 'state'))
if not state then
  if redis.call('EXISTS', tombstone) == 1 then
    return {'pruned', ''}
  end
  if ahead_ms ~= '0' then
    redis.call('SADD', subscribers, subscriber)
    redis.call('PEXPIRE', subscribers, ahead_ms)
  end
  return {'missing', ''}
end
if ended == '1' then
  return {'ended', state}
end
redis.call('SADD', subscribers, subscriber)
redis.call('PERSIST', subscribers)
return {'subscribed', state}
