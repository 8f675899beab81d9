--@use clock
-- The effects that wait for a held name: a hash of the family, from the id of each to
-- '<since> <offered> <name>'. When the name is freed, it is offered to the effect that has waited
-- longest: that effect is polled now, and until OFFER_MS have passed no other record may take the
-- name. One that does not come in that time loses its place; `offered` is 0 before.
local OFFER_MS = 30000
local HOLD_QUEUE_MS = 86400000

-- Returns the effects that wait, those that have waited longest first.
local function waiting_effects(hold_queue)
  local found = {}
  local lines = redis.call('HGETALL', hold_queue)
  for n = 1, #lines, 2 do
    local since, offered, name = string.match(lines[n + 1], '^(%d+) (%d+) (.*)$')
    found[#found + 1] = {
      effect = lines[n],
      record = string.match(lines[n], '^[^:]+'),
      since = tonumber(since),
      offered = tonumber(offered),
      name = name,
    }
  end
  table.sort(found, function(one, other)
    if one.since ~= other.since then
      return one.since < other.since
    end
    return one.effect < other.effect
  end)
  return found
end

-- Whether the name is kept for the effect that waits. A clock that was set back ends that.
local function is_offered(waiting)
  return waiting.offered > 0
    and waiting.offered <= now_ms
    and now_ms < waiting.offered + OFFER_MS
end

-- Lets an effect wait for a name. It keeps its place where it waits already.
local function wait_for_name(hold_queue, effect, name)
  local line = redis.call('HGET', hold_queue, effect)
  local since = line and string.match(line, '^%d+') or now_ms
  redis.call('HSET', hold_queue, effect, since .. ' 0 ' .. name)
  redis.call('PEXPIRE', hold_queue, HOLD_QUEUE_MS)
end

-- Offers a name that was freed to the effect that has waited for it longest.
local function offer_name(hold_queue, effects, name)
  for _, waiting in ipairs(waiting_effects(hold_queue)) do
    -- An effect that is paused or dropped meanwhile is not in the index: it could not come.
    if waiting.name == name and redis.call('ZSCORE', effects, waiting.effect) then
      if waiting.offered == 0 then
        local line = waiting.since .. ' ' .. now_ms .. ' ' .. name
        redis.call('HSET', hold_queue, waiting.effect, line)
        redis.call('ZADD', effects, now, waiting.effect)
        return
      end
      redis.call('HDEL', hold_queue, waiting.effect)
    end
  end
end

-- Ends the waiting of a record that takes its names.
local function stop_waiting(hold_queue, id)
  for _, waiting in ipairs(waiting_effects(hold_queue)) do
    if waiting.record == id then
      redis.call('HDEL', hold_queue, waiting.effect)
    end
  end
end
