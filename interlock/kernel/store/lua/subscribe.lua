-- Subscribes to the end of a record, or answers that it has ended. Both are one step with the end
-- itself: either the end sees the subscriber, or the subscriber sees the end.
-- A record that does not exist yet may be subscribed to ahead, for some time.
-- KEYS     record, subscribers, tombstone
-- ARGV     subscriber, ahead_ms
-- Returns  {status, state}; status: subscribed | ended | missing | pruned
-- A record that does not exist is subscribed to for `ahead_ms`, 0 is not.
local ended, state = unpack(redis.call('HMGET', record, 'ended', 'state'))
if not state then
  if redis.call('EXISTS', tombstone) == 1 then
    return {'pruned', ''}
  end
  if plan.ahead_ms > 0 then
    redis.call('SADD', subscribers, plan.subscriber)
    redis.call('PEXPIRE', subscribers, plan.ahead_ms)
  end
  return {'missing', ''}
end
if ended == '1' then
  return {'ended', state}
end
redis.call('SADD', subscribers, plan.subscriber)
redis.call('PERSIST', subscribers)
return {'subscribed', state}
