--@use fields
-- Adds the names of a record to the search index of its partition, removes them, or changes them
-- with the record's title. All members have the score 0, so that they stand in their own order. One
-- call takes all names: a call costs more than a name.
local function add_names(search_index, names)
  local scored = {}
  for _, name in ipairs(names) do
    scored[#scored + 1] = 0
    scored[#scored + 1] = name
  end
  if #scored > 0 then
    redis.call('ZADD', search_index, unpack(scored))
  end
end
local function remove_names(search_index, names)
  if #names > 0 then
    redis.call('ZREM', search_index, unpack(names))
  end
end
local function change_title(fields, search_index, change)
  put(fields, 'title', change.title)
  remove_names(search_index, change.removed)
  add_names(search_index, change.added)
end
