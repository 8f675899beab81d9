-- Forgets what a process has said of itself: it ends.
-- KEYS     facts, announced
-- ARGV     name
-- Returns  {'withdrawn' | 'unknown'}
redis.call('ZREM', announced, plan.name)
return {redis.call('HDEL', facts, plan.name) == 1 and 'withdrawn' or 'unknown'}
