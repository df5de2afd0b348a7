;;; agent-shell.el --- Bridle in agent-shell -*- lexical-binding: t; -*-

;;; Code:

(require 'agent-shell)

(add-to-list 'agent-shell-agent-configs
             (agent-shell-make-agent-config
              :identifier 'bridle
              :mode-line-name "Bridle"
              :buffer-name "Bridle"
              :shell-prompt "Bridle> "
              :shell-prompt-regexp "Bridle> "
              :client-maker (lambda (buffer)
                              (agent-shell--make-acp-client
                               :command "bridle"
                               :command-params '("acp")
                               :context-buffer buffer))))

;;; agent-shell.el ends here
