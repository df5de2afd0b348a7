-- The built-in adapter is only the base for the handlers: its own `authenticate` says yes without
-- asking the agent. Everything that names an agent is replaced.
require("codecompanion").setup({
  adapters = {
    acp = {
      bridle = function()
        return require("codecompanion.adapters").extend("opencode", {
          name = "bridle",
          formatted_name = "Bridle",
          commands = { default = { "bridle", "acp" } },
        })
      end,
    },
  },
  interactions = { chat = { adapter = "bridle" } },
})
