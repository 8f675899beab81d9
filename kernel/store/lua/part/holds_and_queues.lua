-- What the records of a family share: names, each held by one record while it is in a state, and
-- queues of records that wait to be taken. A name covers all that is below it, as a folder does.
local function overlap(name, other)
  return name == other
    or string.sub(name, 1, #other + 1) == other .. '/'
    or string.sub(other, 1, #name + 1) == name .. '/'
end

-- Returns another record that holds one of these names, or nil.
local function other_holder(holds, names, id)
  if #names == 0 then
    return nil
  end
  local held = redis.call('HGETALL', holds)
  for n = 1, #held, 2 do
    local name, holder = held[n], held[n + 1]
    for _, wanted in ipairs(names) do
      if holder ~= id and overlap(name, wanted) then
        return holder
      end
    end
  end
  return nil
end

-- Frees and takes names, leaves one queue and enters another.
-- shares = {frees: [name], takes: [name], left: name of the queue that is left, or '',
--           entered: name of the queue that is entered, or ''}
-- keys   = {holds, queue that is left, queue that is entered, names of the queues in use}
local function change_shares(shares, keys, record, id)
  local holds, left_queue, entered_queue, queues = unpack(keys)
  for _, name in ipairs(shares.frees) do
    if redis.call('HGET', holds, name) == id then
      redis.call('HDEL', holds, name)
    end
  end
  for _, name in ipairs(shares.takes) do
    redis.call('HSET', holds, name, id)
  end
  if shares.left ~= '' then
    redis.call('ZREM', left_queue, id)
    if redis.call('ZCARD', left_queue) == 0 then
      redis.call('SREM', queues, shares.left)
    end
  end
  if shares.entered ~= '' then
    local priority, created = unpack(redis.call('HMGET', record, 'priority', 'created'))
    -- By priority, then by age: a double holds both exactly.
    local score = tonumber(priority) * 1e13 + tonumber(created)
    redis.call('ZADD', entered_queue, score, id)
    redis.call('SADD', queues, shares.entered)
  end
end
