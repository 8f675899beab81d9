-- Adds the names of a record to the search index of its partition, or removes them. All members
-- have the score 0, so that the index is in the order of its members.
local function add_names(search_index, names)
  for _, name in ipairs(names) do
    redis.call('ZADD', search_index, 0, name)
  end
end
local function remove_names(search_index, names)
  for _, name in ipairs(names) do
    redis.call('ZREM', search_index, name)
  end
end
