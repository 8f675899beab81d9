-- What a tree of records uses, and what it may use. A record's counters hold its own sums, those of
-- its tree ('tree.<name>': of itself and of all records below it), and its limits: 'cap' of money,
-- 'most' of runs. A chain is the counters of a record and of its ancestors, its own first.
local function add_to_trees(chain, name, amount)
  if amount == 0 then
    return
  end
  for _, counters in ipairs(chain) do
    redis.call('HINCRBY', counters, 'tree.' .. name, amount)
  end
end

-- Gives back what an effect has reserved. What a lost holder may have spent of it is not known, so
-- it is booked as residue.
local function release_reservation(chain, entry, lost)
  add_to_trees(chain, 'reserved', -entry.reserved)
  if lost then
    add_to_trees(chain, 'residue', entry.reserved)
  end
  entry.reserved = 0
end
