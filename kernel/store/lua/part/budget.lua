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

-- What a family sums: money, what of it counts as cost, what was told too late, ms at work, runs of workers.
local OF_TREE = {spent = true, cost = true, late = true, time_ms = true, runs = true}

-- What a family may use, kept beside what it has used: money ('cap'), runs of workers ('most').
local function bound(counters, plan)
  if plan.cap then redis.call('HSET', counters, 'cap', whole(plan.cap)) end
  if plan.most then redis.call('HSET', counters, 'most', whole(plan.most)) end
end

-- Whether one of the chain has fewer runs left than this asks for: those who start side by side cannot all see the last one free.
local function runs_out(first, chain, runs)
  for n = first, first + chain - 1 do
    local sums = redis.call('HMGET', KEYS[n], 'most', 'tree.runs')
    if sums[1] and tonumber(sums[2] or 0) + runs > tonumber(sums[1]) then return true end
  end
  return false
end

local function count(chain, deltas)
  for name, amount in pairs(deltas) do
    redis.call('HINCRBY', chain[1], name, whole(amount))
    if OF_TREE[name] then tree_add(chain, name, amount) end
  end
end
