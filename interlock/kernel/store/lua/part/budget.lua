-- What a tree of records uses, and what it may use, by name, such as 'spent' (money in
-- micro-dollars) or 'tokens'. A record's counters hold its own sum of each name, and of its tree
-- (of itself and of all records below it): 'tree.<name>', what was used; 'reserved.<name>', what
-- holders of effects may still use; 'residue.<name>', what lost holders may have used;
-- 'cap.<name>', the most that the tree may use. A chain is the counters of a record and of its
-- ancestors, its own first.
local function add_to_trees(chain, field, amount)
  if tonumber(amount) == 0 then
    return
  end
  for _, counters in ipairs(chain) do
    redis.call('HINCRBY', counters, field, amount)
  end
end

-- Yields each name and amount of a text 'name=amount,name=amount', which is '-' where it has none.
local function amounts_in(text)
  return string.gmatch(text, '([^=,]+)=(%d+)')
end

-- Gives back of reserved or residual amounts what was used of them, or all where `used` is nil.
-- Returns the text of what is left.
local function give_back(chain, kind, amounts, used)
  local left = {}
  for name, amount in amounts_in(amounts) do
    local freed = tonumber(amount)
    if used then
      freed = math.min(freed, math.max(used[name] or 0, 0))
    end
    add_to_trees(chain, kind .. '.' .. name, -freed)
    if freed < tonumber(amount) then
      left[#left + 1] = string.format('%s=%.0f', name, amount - freed)
    end
  end
  return #left > 0 and table.concat(left, ',') or '-'
end

-- Gives back what an effect has reserved.
local function release_reservation(chain, entry)
  entry.reserved = give_back(chain, 'reserved', entry.reserved)
end

-- Books what a lost holder had reserved as residue, because it may have used it. The record keeps
-- it under the holder's token: a report that comes too late says what it used.
local function book_residue(record, chain, entry)
  if entry.reserved == '-' then
    return
  end
  for name, amount in amounts_in(entry.reserved) do
    add_to_trees(chain, 'residue.' .. name, amount)
  end
  redis.call('HSET', record, 'l:' .. entry.token, entry.reserved)
  release_reservation(chain, entry)
end
