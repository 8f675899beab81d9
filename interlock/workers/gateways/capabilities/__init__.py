"""Capabilities: functions, commands and MCP tools that a thread or job may use."""
