-- Subscribes to the end of a record, or answers that it has ended. Both are one step with the end
-- itself: either the end sees the subscriber, or the subscriber sees the end.
-- KEYS     record, its subscribers
-- ARGV     subscriber
-- Returns  {status, state}; status: subscribed | ended | missing
local record = KEYS[1]
local subscribers = KEYS[2]
local subscriber = ARGV[1]

local ended, state = unpack(redis.call('HMGET', record, 'ended', 'state'))
if not state then
  return {'missing', ''}
end
if ended == '1' then
  return {'ended', state}
end
redis.call('SADD', subscribers, subscriber)
return {'subscribed', state}
