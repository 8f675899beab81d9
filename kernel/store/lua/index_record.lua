--@use search_index
-- Adds a record to the indexes by creation and by name, if it has not changed since it was read.
-- KEYS     record, creation index, search index
-- ARGV     id, its version, its title, its names in the search index as JSON
-- Returns  {status}: indexed | moved | missing
local record = KEYS[1]
local creation_index = KEYS[2]
local search_index = KEYS[3]
local id = ARGV[1]
local version = ARGV[2]
local title = ARGV[3]
local names = cjson.decode(ARGV[4])

local stored_version, created = unpack(redis.call('HMGET', record, 'version', 'created'))
if not stored_version then
  return {'missing'}
end
if stored_version ~= version then
  return {'moved'}
end
redis.call('HSET', record, 'title', title)
redis.call('ZADD', creation_index, created, id)
add_names(search_index, names)
return {'indexed'}
