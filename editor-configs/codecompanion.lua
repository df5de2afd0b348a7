-- codecompanion.nvim: in the call of setup(). The built-in adapter is only the base for the
-- handlers; everything that names an agent is replaced.
require("codecompanion").setup({
  adapters = {
    acp = {
      bridle = function()
        return require("codecompanion.adapters").extend("opencode", {
          name = "bridle",
          formatted_name = "Bridle",
          commands = { default = { "bridle", "acp" } },
          defaults = { timeout = 20000, mcpServers = {} },
        })
      end,
    },
  },
  interactions = { chat = { adapter = "bridle" } },
})
