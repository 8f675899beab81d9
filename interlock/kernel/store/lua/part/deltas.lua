--@use budget
-- Adds to the sums of a record, and to those of the trees that it is in.
local function add_deltas(chain, deltas)
  for name, amount in pairs(deltas) do
    redis.call('HINCRBY', chain[1], name, amount)
    add_to_trees(chain, 'tree.' .. name, amount)
  end
end
