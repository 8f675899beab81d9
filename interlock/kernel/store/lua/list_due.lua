--@use clock
-- Lists the members of an index that are due. Polling them decides what becomes of each.
-- KEYS     index
-- ARGV     limit
-- Returns  {member, ...}
return redis.call('ZRANGE', index, '-inf', now, 'BYSCORE', 'LIMIT', 0, plan.limit)
