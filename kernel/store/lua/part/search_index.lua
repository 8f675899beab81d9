-- Adds the names of a record to the search index of its partition, removes them, or changes them
-- with the record's title. All members have the score 0, so that they stand in their own order.
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
local function change_title(record, search_index, change)
  if change then
    redis.call('HSET', record, 'title', change.title)
    remove_names(search_index, change.removed)
    add_names(search_index, change.added)
  end
end
