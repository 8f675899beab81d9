--@use clock
-- A name has a limited number of slots, and a queue of the records that wait for one.
-- Score of a holder: > 0, it took its slot at that ms. < 0, it was reported as one to wake at that
-- time (-score, in ms), and has not taken its slot since. 0, it was not reported yet.
local TAKEN = 'taken ' -- in `reports`, before the id of the call by which a slot was taken

-- An offer that nobody has taken for so long is reported again. It is no longer than the grace of
-- the exclusive effects that wake holders: where such an effect is lost between the two, the next
-- attempt begins after that grace, and finds the holder that is still to be woken.
local REPORTED_AGAIN_MS = 10000

-- Offers free slots to the first in the queue. A limit of 0 is none.
local function offer_slots(holders, queue, limit)
  while limit == 0 or redis.call('ZCARD', holders) < limit do
    local first = redis.call('ZPOPMIN', queue)
    if #first == 0 then
      return
    end
    redis.call('ZADD', holders, '0', first[1])
  end
end

-- Takes back a slot that was offered so long ago that its holder should have come: its message is
-- lost, or behind many others. Returns whether there was one.
local function pass_on_offer(holders, reports, good_ms)
  local found = redis.call('ZRANGE', holders, good_ms - now_ms, '(0', 'BYSCORE', 'LIMIT', 0, 1)
  if #found == 0 then
    return false
  end
  redis.call('ZREM', holders, found[1])
  redis.call('HDEL', reports, found[1])
  return true
end

-- Returns the holders to wake: those that have not taken their slot, and were not reported lately,
-- and those that this same call reported before, because its reply may have been lost. `reports`
-- has for each holder that was reported the call that did it last, until it takes its slot.
local function holders_to_wake(holders, reports, call_id)
  local lately = REPORTED_AGAIN_MS - now_ms
  local found = redis.call('ZRANGE', holders, lately, '0', 'BYSCORE', 'LIMIT', 0, 100)
  local before_setting_back = string.format('(%d', -now_ms) -- of the clock
  for _, id in ipairs(redis.call('ZRANGE', holders, '-inf', before_setting_back, 'BYSCORE')) do
    found[#found + 1] = id
  end
  local reported = redis.call('HGETALL', reports)
  for n = 1, #reported, 2 do
    if reported[n + 1] == call_id then
      found[#found + 1] = reported[n]
    end
  end
  for _, id in ipairs(found) do
    redis.call('ZADD', holders, -now_ms, id)
    redis.call('HSET', reports, id, call_id)
  end
  return found
end
