require("avante").setup({
  provider = "bridle",
  acp_providers = {
    -- The agent gets the PATH and these variables, and no others.
    bridle = { command = "bridle", args = { "acp" }, env = { HOME = os.getenv("HOME") } },
  },
})
