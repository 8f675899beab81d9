--@use budget
-- The sums of a tree: money, the part of it that counts as cost, the part that was reported too
-- late, ms at work, and runs.
local SUMMED_IN_TREES = {spent = true, cost = true, late = true, time_ms = true, runs = true}

-- Adds to the sums of a record, and to those of the trees that it is in.
local function add_deltas(chain, deltas)
  for name, amount in pairs(deltas) do
    redis.call('HINCRBY', chain[1], name, amount)
    if SUMMED_IN_TREES[name] then
      add_to_trees(chain, name, amount)
    end
  end
end
