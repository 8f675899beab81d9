-- What the records of one family share: names that one of them holds while it is in a state, and lines of those that wait to be taken.
-- A name stands for everything below it, as a folder does.
local function overlap(one, other)
  return one == other or string.sub(one, 1, #other + 1) == other .. '/' or string.sub(other, 1, #one + 1) == one .. '/'
end

local function held_by_another(holds, names, id)
  if #names == 0 then return nil end
  local kept = redis.call('HGETALL', holds)
  for n = 1, #kept, 2 do
    for _, name in ipairs(names) do
      if kept[n + 1] ~= id and overlap(kept[n], name) then return kept[n + 1] end
    end
  end
  return nil
end

-- shares = {left: line that is left or '', line: line that is entered or '', frees: [name], takes: [name]}
-- keys = {holds, line that is left, line that is entered, lines}
local function share(shares, keys, record, id)
  for _, name in ipairs(shares.frees) do
    if redis.call('HGET', keys[1], name) == id then redis.call('HDEL', keys[1], name) end
  end
  for _, name in ipairs(shares.takes) do redis.call('HSET', keys[1], name, id) end
  if shares.left ~= '' then
    redis.call('ZREM', keys[2], id)
    if redis.call('ZCARD', keys[2]) == 0 then redis.call('SREM', keys[4], shares.left) end
  end
  if shares.line ~= '' then
    local stands = redis.call('HMGET', record, 'priority', 'created')
    -- By priority, then age; both fit into a double.
    redis.call('ZADD', keys[3], whole(tonumber(stands[1]) * 1e13 + tonumber(stands[2])), id)
    redis.call('SADD', keys[4], shares.line)
  end
end
