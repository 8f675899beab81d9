--@use hold_queue
-- What the records of a family share: names, each held by one record while it is in a state, and
-- queues of records that wait to be taken. A name covers all that is below it, as a folder does.
local function overlap(name, other)
  return name == other
    or string.sub(name, 1, #other + 1) == other .. '/'
    or string.sub(other, 1, #name + 1) == name .. '/'
end

-- Returns another record that holds one of these names, or to which one was offered, and the name
-- that is in the way; or nil.
local function other_holder(holds, hold_queue, names, id)
  -- Most commits take no names. They need not read those that are held.
  if #names == 0 then
    return nil
  end
  local function in_the_way(name, holder)
    for _, wanted in ipairs(names) do
      if holder ~= id and overlap(name, wanted) then
        return true
      end
    end
    return false
  end
  local held = redis.call('HGETALL', holds)
  for n = 1, #held, 2 do
    if in_the_way(held[n], held[n + 1]) then
      return held[n + 1], held[n]
    end
  end
  for _, waiting in ipairs(waiting_effects(hold_queue)) do
    if is_offered(waiting) and in_the_way(waiting.name, waiting.record) then
      return waiting.record, waiting.name
    end
  end
  return nil
end

-- Frees and takes names, leaves one queue and enters another.
-- shares = {frees: [name], takes: [name], left: name of the queue that is left, or '',
--           entered: name of the queue that is entered, or ''}
-- keys   = {holds, hold queue, queue that is left, queue that is entered, names of the queues}
local function change_shares(shares, keys, effects, record, id)
  local holds, hold_queue, left_queue, entered_queue, queues = unpack(keys)
  for _, name in ipairs(shares.frees) do
    if redis.call('HGET', holds, name) == id then
      redis.call('HDEL', holds, name)
      offer_name(hold_queue, effects, name)
    end
  end
  for _, name in ipairs(shares.takes) do
    redis.call('HSET', holds, name, id)
  end
  if #shares.takes > 0 then
    stop_waiting(hold_queue, id)
  end
  if redis.call('ZREM', left_queue, id) == 1 and redis.call('ZCARD', left_queue) == 0 then
    redis.call('SREM', queues, shares.left)
  end
  if shares.entered ~= '' then
    local priority, created = unpack(redis.call('HMGET', record, 'priority', 'created'))
    -- By priority, then by age: a double holds both exactly.
    local score = tonumber(priority) * 1e13 + tonumber(created)
    redis.call('ZADD', entered_queue, score, id)
    redis.call('SADD', queues, shares.entered)
  end
end
