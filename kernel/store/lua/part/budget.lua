-- Money of a tree: every record of the chain (itself first, then its ancestors) sums what its family spent, holds and may have lost.
local function tree_add(chain, name, amount)
  if amount == 0 then return end
  for _, counters in ipairs(chain) do redis.call('HINCRBY', counters, 'tree.' .. name, whole(amount)) end
end

-- What an entry reserved is given back, or booked as residue when nobody can say any more what was spent.
local function unreserve(chain, entry, lost)
  if entry.reserved == 0 then return end
  tree_add(chain, 'reserved', -entry.reserved)
  if lost then tree_add(chain, 'residue', entry.reserved) end
  entry.reserved = 0
end

local function within(chain, estimate)
  for at, counters in ipairs(chain) do
    local sums = redis.call('HMGET', counters, 'cap', 'tree.spent', 'tree.reserved', 'tree.residue')
    if sums[1] then
      local used = tonumber(sums[2] or 0) + tonumber(sums[3] or 0) + tonumber(sums[4] or 0)
      if used + estimate > tonumber(sums[1]) then return at end
    end
  end
  return 0
end

-- What a family sums: money, ms at work, runs of workers.
local OF_TREE = {spent = true, time_ms = true, runs = true}

local function count(chain, deltas, cap)
  if cap then redis.call('HSET', chain[1], 'cap', whole(cap)) end
  for name, amount in pairs(deltas) do
    redis.call('HINCRBY', chain[1], name, whole(amount))
    if OF_TREE[name] then tree_add(chain, name, amount) end
  end
end
